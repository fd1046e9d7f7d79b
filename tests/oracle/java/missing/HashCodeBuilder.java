package smfs.shaded.org.apache.commons.lang3.builder;

/** The jar refers to commons-lang3 under this name, with this class as the result of its methods. */
public class HashCodeBuilder {
  private final org.apache.commons.lang3.builder.HashCodeBuilder builder =
      new org.apache.commons.lang3.builder.HashCodeBuilder();

  public HashCodeBuilder append(int value) {
    builder.append(value);
    return this;
  }

  public HashCodeBuilder append(long value) {
    builder.append(value);
    return this;
  }

  public int toHashCode() {
    return builder.toHashCode();
  }
}
