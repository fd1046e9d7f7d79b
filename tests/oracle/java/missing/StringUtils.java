package smfs.shaded.org.apache.commons.lang3;

/** The jar refers to commons-lang3 under this name and does not bring it; ORC cannot be read without it. */
public class StringUtils extends org.apache.commons.lang3.StringUtils {}
