"""Reads what the owner declares: YAML of a site in, models of `fleet/` out. Errors name file, line and field."""
