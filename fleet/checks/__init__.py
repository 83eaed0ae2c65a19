"""What an audit looks for, one function each, in the file of its subject. Every file here is found by itself."""

import importlib
import pkgutil

for _module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
