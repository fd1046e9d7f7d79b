package smfs.shaded.org.apache.commons.lang3;

/** The jar refers to commons-lang3 under this name and does not bring it. */
public class ArrayUtils extends org.apache.commons.lang3.ArrayUtils {}
