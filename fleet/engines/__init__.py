"""One data file an engine version, made by `fleet engine dump VERSION`; read through fleet/engines/catalogs.py."""
