import org.apache.hadoop.conf.Configuration;
import smfs.shaded.org.apache.iceberg.BaseMetastoreTableOperations;
import smfs.shaded.org.apache.iceberg.BaseTable;
import smfs.shaded.org.apache.iceberg.TableMetadata;
import smfs.shaded.org.apache.iceberg.hadoop.HadoopFileIO;
import smfs.shaded.org.apache.iceberg.io.FileIO;

/** A table known by its metadata file alone: a commit writes the next one and nothing else, as catalogs do. */
final class MetadataFile extends BaseMetastoreTableOperations {
  static final FileIO IO = new HadoopFileIO(withoutChecksumFiles());
  private String location;

  private MetadataFile(String location) {
    this.location = location;
  }

  static BaseTable open(String location) {
    MetadataFile operations = new MetadataFile(location);
    operations.refresh();
    return new BaseTable(operations, location);
  }

  static String create(TableMetadata metadata) {
    MetadataFile operations = new MetadataFile(null);
    operations.commit(null, metadata);
    return operations.location;
  }

  static String location(BaseTable table) {
    return ((MetadataFile) table.operations()).location;
  }

  @Override
  protected String tableName() {
    return "oracle";
  }

  @Override
  public FileIO io() {
    return IO;
  }

  @Override
  protected void doRefresh() {
    refreshFromMetadataLocation(location);
  }

  @Override
  protected void doCommit(TableMetadata base, TableMetadata metadata) {
    location = writeNewMetadataIfRequired(base == null, metadata);
  }

  private static Configuration withoutChecksumFiles() {
    Configuration configuration = new Configuration(false);
    configuration.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
    return configuration;
  }
}
