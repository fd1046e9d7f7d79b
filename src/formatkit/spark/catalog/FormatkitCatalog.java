package org.formatkit.spark;

import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceData;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.Some;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * A catalog of Spark SQL whose answers come from Python.
 *
 * Spark makes it by its name and without arguments. It finds its Python half, a function from a call to an answer, in a
 * static map. What is nested here are the objects that Spark gets from it: objects of Java, so that default methods and
 * overloads are those of Java. Spark's own compiler for generated code compiles this file on the driver, where alone it
 * is used; that compiler has no generics and no lambdas.
 */
public class FormatkitCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog {
  public static final ConcurrentHashMap DELEGATES = new ConcurrentHashMap();

  private String name;

  public FormatkitCatalog() {}

  /** Ask Python. What it answers is thrown if it can be: Python says so which of Spark's exceptions an error is. */
  static Object ask(Function delegate, String what, Object[] arguments) {
    Object[] call = new Object[arguments.length + 1];
    call[0] = what;
    System.arraycopy(arguments, 0, call, 1, arguments.length);
    Object answer = delegate.apply(call);
    if (answer instanceof Throwable) {
      Platform.throwException((Throwable) answer);
    }
    return answer;
  }

  private Object ask(String what, Object[] arguments) {
    Object delegate = DELEGATES.get(name);
    if (delegate == null) {
      throw new IllegalStateException(
          "the catalog " + name + " is not known to formatkit; call formatkit.spark.register(spark)");
    }
    return ask((Function) delegate, what, arguments);
  }

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    ask("check", new Object[] {});
  }

  public String name() {
    return name;
  }

  public Set capabilities() {
    return (Set) ask("capabilities", new Object[] {});
  }

  public String[] defaultNamespace() {
    return (String[]) ask("defaultNamespace", new Object[] {});
  }

  public Identifier[] listTables(String[] namespace) {
    return (Identifier[]) ask("listTables", new Object[] {namespace});
  }

  public Table loadTable(Identifier ident) {
    return (Table) ask("loadTable", new Object[] {ident, null, null});
  }

  public Table loadTable(Identifier ident, String version) {
    return (Table) ask("loadTable", new Object[] {ident, version, null});
  }

  public Table loadTable(Identifier ident, long timestamp) {
    return (Table) ask("loadTable", new Object[] {ident, null, Long.valueOf(timestamp)});
  }

  public boolean tableExists(Identifier ident) {
    return ((Boolean) ask("tableExists", new Object[] {ident})).booleanValue();
  }

  // Spark 4.0 has no other form; later ones come here with all but constraints, which they refuse before.
  public Table createTable(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return (Table) ask("createTable", new Object[] {ident, schemaOf(columns), partitions, properties});
  }

  public Table alterTable(Identifier ident, TableChange[] changes) {
    return (Table) ask("alterTable", new Object[] {ident, changes});
  }

  public boolean dropTable(Identifier ident) {
    return ((Boolean) ask("dropTable", new Object[] {ident})).booleanValue();
  }

  public boolean purgeTable(Identifier ident) {
    return ((Boolean) ask("purgeTable", new Object[] {ident})).booleanValue();
  }

  public void renameTable(Identifier from, Identifier to) {
    ask("renameTable", new Object[] {from, to});
  }

  public StagedTable stageCreate(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return (StagedTable) ask("stageTable", new Object[] {ident, schemaOf(columns), partitions, properties, "create"});
  }

  public StagedTable stageReplace(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return (StagedTable) ask("stageTable", new Object[] {ident, schemaOf(columns), partitions, properties, "replace"});
  }

  public StagedTable stageCreateOrReplace(Identifier ident, Column[] columns, Transform[] partitions, Map properties) {
    return (StagedTable) ask("stageTable", new Object[] {ident, schemaOf(columns), partitions, properties, "create or replace"});
  }

  public String[][] listNamespaces() {
    return (String[][]) ask("listNamespaces", new Object[] {new String[0]});
  }

  public String[][] listNamespaces(String[] namespace) {
    return (String[][]) ask("listNamespaces", new Object[] {namespace});
  }

  public boolean namespaceExists(String[] namespace) {
    return ((Boolean) ask("namespaceExists", new Object[] {namespace})).booleanValue();
  }

  public Map loadNamespaceMetadata(String[] namespace) {
    return (Map) ask("loadNamespaceMetadata", new Object[] {namespace});
  }

  public void createNamespace(String[] namespace, Map metadata) {
    ask("createNamespace", new Object[] {namespace, metadata});
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    ask("alterNamespace", new Object[] {namespace, changes});
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return ((Boolean) ask("dropNamespace", new Object[] {namespace, Boolean.valueOf(cascade)})).booleanValue();
  }

  public UnboundProcedure loadProcedure(Identifier ident) {
    return (UnboundProcedure) ask("loadProcedure", new Object[] {ident});
  }

  public Identifier[] listProcedures(String[] namespace) {
    return (Identifier[]) ask("listProcedures", new Object[] {namespace});
  }

  static StructType schemaOf(Column[] columns) {
    return CatalogV2Util.v2ColumnsToStructType(columns);
  }

  /** What every table can tell about itself, whoever reads it. */
  public static class Description {
    public final String name;
    public final String id;
    public final String version;
    public final Column[] columns;
    public final Transform[] partitioning;
    public final Map properties;
    public final Set capabilities;
    public final MetadataColumn[] metadataColumns;

    public Description(
        String name,
        String id,
        String version,
        Column[] columns,
        Transform[] partitioning,
        Map properties,
        Set capabilities,
        MetadataColumn[] metadataColumns) {
      this.name = name;
      this.id = id;
      this.version = version;
      this.columns = columns;
      this.partitioning = partitioning;
      this.properties = properties;
      this.capabilities = capabilities;
      this.metadataColumns = metadataColumns;
    }
  }

  /** A table that can be read: a state of a table, or its metadata. */
  public static class ReadTable implements SupportsRead, SupportsMetadataColumns {
    protected final Function delegate;
    protected final Description description;

    public ReadTable(Function delegate, Description description) {
      this.delegate = delegate;
      this.description = description;
    }

    public String name() {
      return description.name;
    }

    public String id() {
      return description.id;
    }

    public String version() {
      return description.version;
    }

    public Column[] columns() {
      return description.columns;
    }

    public StructType schema() {
      return schemaOf(description.columns);
    }

    public Transform[] partitioning() {
      return description.partitioning;
    }

    public Map properties() {
      return description.properties;
    }

    public Set capabilities() {
      return description.capabilities;
    }

    public MetadataColumn[] metadataColumns() {
      return description.metadataColumns;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return (ScanBuilder) ask(delegate, "newScanBuilder", new Object[] {options});
    }

    public boolean equals(Object other) {
      if (!(other instanceof ReadTable)) {
        return false;
      }
      Description theirs = ((ReadTable) other).description;
      return description.name.equals(theirs.name)
          && description.id != null
          && description.id.equals(theirs.id)
          && description.version != null
          && description.version.equals(theirs.version);
    }

    public int hashCode() {
      return description.name.hashCode();
    }

    public String toString() {
      return description.name;
    }
  }

  /** A table as it is now, which can be written to. */
  public static class CurrentTable extends ReadTable
      implements SupportsWrite, SupportsRowLevelOperations, SupportsDeleteV2 {

    public CurrentTable(Function delegate, Description description) {
      super(delegate, description);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      boolean upserts = ((Boolean) ask(delegate, "upserts", new Object[] {info})).booleanValue();
      return upserts ? new UpsertBuilder(delegate, info) : new PlannedWriteBuilder(delegate, info);
    }

    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
      return new OperationBuilder(delegate, info);
    }

    public boolean canDeleteWhere(Predicate[] predicates) {
      return ((Boolean) ask(delegate, "canDeleteWhere", new Object[] {predicates})).booleanValue();
    }

    public void deleteWhere(Predicate[] predicates) {
      ask(delegate, "deleteWhere", new Object[] {predicates});
    }

    public boolean truncateTable() {
      ask(delegate, "truncateTable", new Object[] {});
      return true;
    }

    public CustomMetric[] supportedCustomMetrics() {
      return new CustomMetric[0];
    }

    public CustomTaskMetric[] reportDriverMetrics() {
      return new CustomTaskMetric[0];
    }
  }

  /** A table that comes into being, or changes, together with its first rows. */
  public static class NewTable extends CurrentTable implements StagedTable {

    public NewTable(Function delegate, Description description) {
      super(delegate, description);
    }

    public void commitStagedChanges() {
      ask(delegate, "commitStagedChanges", new Object[] {});
    }

    public void abortStagedChanges() {
      ask(delegate, "abortStagedChanges", new Object[] {});
    }

    public CustomTaskMetric[] reportDriverMetrics() {
      return new CustomTaskMetric[0];
    }
  }

  /** A column that SELECT * leaves out. */
  public static class HiddenColumn implements MetadataColumn {
    private final String name;
    private final DataType type;
    private final boolean nullable;
    private final String comment;
    private final String json;

    public HiddenColumn(String name, DataType type, boolean nullable, String comment, String json) {
      this.name = name;
      this.type = type;
      this.nullable = nullable;
      this.comment = comment;
      this.json = json;
    }

    public String name() {
      return name;
    }

    public DataType dataType() {
      return type;
    }

    public boolean isNullable() {
      return nullable;
    }

    public String comment() {
      return comment;
    }

    public String metadataInJSON() {
      return json;
    }
  }

  /** Rows that the driver has already. */
  public static class LocalRows implements ScanBuilder, LocalScan {
    private final StructType schema;
    private final InternalRow[] rows;
    private final String title;

    public LocalRows(StructType schema, InternalRow[] rows, String title) {
      this.schema = schema;
      this.rows = rows;
      this.title = title;
    }

    public Scan build() {
      return this;
    }

    public InternalRow[] rows() {
      return rows;
    }

    public StructType readSchema() {
      return schema;
    }

    public String description() {
      return title;
    }
  }

  public static class OperationBuilder implements RowLevelOperationBuilder {
    private final Function delegate;
    private final RowLevelOperationInfo info;

    public OperationBuilder(Function delegate, RowLevelOperationInfo info) {
      this.delegate = delegate;
      this.info = info;
    }

    public RowLevelOperation build() {
      return (RowLevelOperation) ask(delegate, "newRowLevelOperation", new Object[] {info.command()});
    }
  }

  /** DELETE, UPDATE or MERGE that writes files anew. */
  public static class GroupOperation implements RowLevelOperation {
    protected final Function delegate;
    protected final RowLevelOperation.Command command;
    protected final NamedReference[] metadata;

    public GroupOperation(Function delegate, RowLevelOperation.Command command, NamedReference[] metadata) {
      this.delegate = delegate;
      this.command = command;
      this.metadata = metadata;
    }

    public RowLevelOperation.Command command() {
      return command;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return (ScanBuilder) ask(delegate, "newScanBuilder", new Object[] {options});
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new PlannedWriteBuilder(delegate, info);
    }

    public NamedReference[] requiredMetadataAttributes() {
      return metadata;
    }
  }

  /** DELETE, UPDATE or MERGE that says which rows are gone. */
  public static class DeltaOperation implements SupportsDelta {
    protected final Function delegate;
    protected final RowLevelOperation.Command command;
    protected final NamedReference[] metadata;
    protected final NamedReference[] rowId;

    public DeltaOperation(
        Function delegate, RowLevelOperation.Command command, NamedReference[] metadata, NamedReference[] rowId) {
      this.delegate = delegate;
      this.command = command;
      this.metadata = metadata;
      this.rowId = rowId;
    }

    public RowLevelOperation.Command command() {
      return command;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return (ScanBuilder) ask(delegate, "newScanBuilder", new Object[] {options});
    }

    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new PlannedWriteBuilder(delegate, info);
    }

    public NamedReference[] requiredMetadataAttributes() {
      return metadata;
    }

    public NamedReference[] rowId() {
      return rowId;
    }

    public boolean representUpdateAsDeleteAndInsert() {
      return true;
    }
  }

  /** Collects which rows a write replaces. */
  public static class PlannedWriteBuilder
      implements SupportsOverwriteV2, SupportsDynamicOverwrite, DeltaWriteBuilder {
    private final Function delegate;
    private final LogicalWriteInfo info;
    private String mode = "append";
    private Predicate[] replaced = new Predicate[0];

    public PlannedWriteBuilder(Function delegate, LogicalWriteInfo info) {
      this.delegate = delegate;
      this.info = info;
    }

    public boolean canOverwrite(Predicate[] predicates) {
      return ((Boolean) ask(delegate, "canOverwrite", new Object[] {predicates})).booleanValue();
    }

    public WriteBuilder overwrite(Predicate[] predicates) {
      mode = "overwrite";
      replaced = predicates;
      return this;
    }

    public WriteBuilder truncate() {
      mode = "truncate";
      return this;
    }

    public WriteBuilder overwriteDynamicPartitions() {
      mode = "overwrite partitions";
      return this;
    }

    public DeltaWrite build() {
      return new PlannedWrite(delegate, mode, replaced, info);
    }
  }

  /** Replaces rows by their keys, so that a stream may tell which of its results have changed. */
  public static class UpsertBuilder extends PlannedWriteBuilder implements SupportsStreamingUpdateAsAppend {

    public UpsertBuilder(Function delegate, LogicalWriteInfo info) {
      super(delegate, info);
    }
  }

  /** A write that WriteStrategy plans. Spark's own way to write row by row loses rows in Python, so it is refused. */
  public static class PlannedWrite implements DeltaWrite {
    static final String UNPLANNED =
        "this session does not know how formatkit writes; call formatkit.spark.register(spark) with it";

    private final Function table;
    private final String mode;
    private final Predicate[] replaced;
    private final LogicalWriteInfo info;
    private Function write;

    public PlannedWrite(Function table, String mode, Predicate[] replaced, LogicalWriteInfo info) {
      this.table = table;
      this.mode = mode;
      this.replaced = replaced;
      this.info = info;
    }

    /** The Python half. It is made when the write is planned, as only then it is known not to be a stream's. */
    public synchronized Function write() {
      if (write == null) {
        write = (Function) ask(table, "newWrite", new Object[] {mode, replaced, info});
      }
      return write;
    }

    public DeltaBatchWrite toBatch() {
      throw new UnsupportedOperationException(UNPLANNED);
    }

    public StreamingWrite toStreaming() {
      return new StreamedWrite((Function) ask(table, "newStreamWrite", new Object[] {mode, info}));
    }
  }

  /** The write of one micro-batch. Spark knows the number of the micro-batch and hands it on with the reports. */
  public static class StreamedWrite implements StreamingWrite {
    public final Function delegate;

    public StreamedWrite(Function delegate) {
      this.delegate = delegate;
    }

    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      throw new UnsupportedOperationException(PlannedWrite.UNPLANNED);
    }

    public void commit(long epoch, WriterCommitMessage[] messages) {
      ask(delegate, "commitEpoch", new Object[] {Long.valueOf(epoch), ((Reports) messages[0]).reports});
    }

    public void abort(long epoch, WriterCommitMessage[] messages) {
      ask(delegate, "abort", new Object[] {});
    }
  }

  /** What all tasks report, as one message. */
  public static class Reports implements WriterCommitMessage {
    public final Object[] reports;

    public Reports(Object[] reports) {
      this.reports = reports;
    }
  }

  /** Plans writes as mapInArrow on the executors and a commit on the driver. */
  public static class WriteStrategy extends SparkStrategy {
    // By name, as not every version of Spark has all of them.
    private static final List COMMANDS =
        Arrays.asList(
            new Object[] {
              "AppendData",
              "InsertOnlyMerge",
              "OverwriteByExpression",
              "OverwritePartitionsDynamic",
              "ReplaceData",
              "WriteDelta"
            });

    public Seq apply(LogicalPlan plan) {
      Function write = streamed(plan);
      PlannedWrite once = ours(plan);
      if (write == null && once == null) {
        return (Seq) Nil$.MODULE$;
      }
      LogicalPlan query = (LogicalPlan) plan.children().head();
      if (once != null) {
        write = once.write();
        query = (LogicalPlan) ask(write, "distributed", new Object[] {query});
      }
      Object tasks = ask(write, "plan", new Object[] {plan, query.output(), planLater(query)});
      SparkPlan commit = new CommitExec((SparkPlan) tasks, write, plan);
      return (Seq) Nil$.MODULE$.$colon$colon(commit);
    }

    private static Function streamed(LogicalPlan plan) {
      if (!(plan instanceof WriteToDataSourceV2)) {
        return null;
      }
      BatchWrite batch = ((WriteToDataSourceV2) plan).batchWrite();
      Object stream = batch instanceof MicroBatchWrite ? ((MicroBatchWrite) batch).writeSupport() : null;
      return stream instanceof StreamedWrite ? ((StreamedWrite) stream).delegate : null;
    }

    private static PlannedWrite ours(LogicalPlan plan) {
      if (!(plan instanceof V2WriteCommand) || !COMMANDS.contains(plan.getClass().getSimpleName())) {
        return null;
      }
      for (int i = 0; i < plan.productArity(); i++) {
        Object part = plan.productElement(i);
        if (part instanceof Some && ((Some) part).get() instanceof PlannedWrite) {
          return (PlannedWrite) ((Some) part).get();
        }
      }
      return null;
    }
  }

  /** Runs the tasks of a write and commits what they report, once. */
  public static class CommitExec extends V2CommandExec {
    private final SparkPlan child;
    private final Function write;
    private final LogicalPlan command;

    public CommitExec(SparkPlan child, Function write, LogicalPlan command) {
      this.child = child;
      this.write = write;
      this.command = command;
    }

    public Seq run() {
      Object[] messages;
      try {
        InternalRow[] rows = child.executeCollect();
        messages = new Object[rows.length];
        for (int i = 0; i < rows.length; i++) {
          messages[i] = rows[i].isNullAt(0) ? null : rows[i].getBinary(0);
        }
      } catch (Throwable failure) {
        try {
          ask(write, "abort", new Object[] {});
        } catch (Throwable another) {
          failure.addSuppressed(another);
        }
        try {
          ask(write, "failed", new Object[] {failure});
        } catch (Throwable named) {
          named.addSuppressed(failure);
          Platform.throwException(named);
        }
        Platform.throwException(failure);
        return null;
      }
      if (command instanceof WriteToDataSourceV2) {
        // It knows the number of the micro-batch.
        BatchWrite stream = ((WriteToDataSourceV2) command).batchWrite();
        stream.commit(new WriterCommitMessage[] {new Reports(messages)});
      } else {
        ask(write, "commit", new Object[] {messages});
      }
      Object table = tableOf(command);
      if (table instanceof DataSourceV2Relation) {
        session().sharedState().cacheManager().recacheByPlan(session(), (LogicalPlan) table);
      }
      return (Seq) Nil$.MODULE$;
    }

    private static Object tableOf(LogicalPlan command) {
      if (command instanceof ReplaceData) {
        return ((ReplaceData) command).originalTable();
      } else if (command instanceof WriteDelta) {
        return ((WriteDelta) command).originalTable();
      } else if (command instanceof WriteToDataSourceV2) {
        Option relation = ((WriteToDataSourceV2) command).relation();
        return relation.isDefined() ? relation.get() : null;
      }
      return command.productElement(0);
    }

    public Seq output() {
      return (Seq) Nil$.MODULE$;
    }

    public Seq children() {
      return (Seq) Nil$.MODULE$.$colon$colon(child);
    }

    public TreeNode withNewChildrenInternal(IndexedSeq children) {
      return new CommitExec((SparkPlan) children.head(), write, command);
    }

    public String nodeName() {
      return "FormatkitCommit " + command.nodeName();
    }

    public scala.collection.Iterator stringArgs() {
      return (scala.collection.Iterator) scala.collection.Iterator$.MODULE$.empty();
    }

    public int productArity() {
      return 3;
    }

    public Object productElement(int i) {
      return i == 0 ? (Object) child : i == 1 ? (Object) write : (Object) command;
    }

    public boolean canEqual(Object other) {
      return other instanceof CommitExec;
    }

    public boolean equals(Object other) {
      return this == other;
    }

    public int hashCode() {
      return System.identityHashCode(this);
    }
  }

  /** Maintenance that CALL runs. */
  public static class Procedure implements UnboundProcedure, BoundProcedure {
    private final Function delegate;
    private final String name;
    private final String description;
    private final ProcedureParameter[] parameters;

    public Procedure(Function delegate, String name, String description, ProcedureParameter[] parameters) {
      this.delegate = delegate;
      this.name = name;
      this.description = description;
      this.parameters = parameters;
    }

    public String name() {
      return name;
    }

    public String description() {
      return description;
    }

    public ProcedureParameter[] parameters() {
      return parameters;
    }

    public BoundProcedure bind(StructType inputType) {
      return this;
    }

    public boolean isDeterministic() {
      return false;
    }

    public Iterator call(InternalRow input) {
      Object[] values = new Object[parameters.length];
      for (int i = 0; i < parameters.length; i++) {
        Object value = input.isNullAt(i) ? null : input.get(i, parameters[i].dataType());
        values[i] = value instanceof UTF8String ? value.toString() : value;
      }
      Object rows = ask(delegate, "call", new Object[] {values});
      return Arrays.asList(new Object[] {rows}).iterator();
    }
  }
}
