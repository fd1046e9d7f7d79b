"""Jobs of formatkit (`rewrite`, `validate`, `clean_orphans`) whose pieces run on executors."""
