# Imports of modules in the project. Libraries, such as the standard library, import many modules only if they exist (`pickle` imports `org`).
# A new file of such a name must not run. So only the project's own code can import a module of the project by its name, and other code only
# if a file of the project has that name in quotes, as in `"settings.production"`.
import importlib.machinery
import os
import re
import sys

# Directories in which modules of the project are searched.
_places = []
# Directories in the project that contain installed libraries.
_INSTALLED = re.compile(r"[/\\](site-packages|dist-packages)[/\\]")
_LOADERS = (
    (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
    (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES),
    (importlib.machinery.SourcelessFileLoader, importlib.machinery.BYTECODE_SUFFIXES),
)
_source_texts = {}
_refused = set()


def add_place(place):
    """Searches modules in a directory, after all installed modules, so that no file replaces one of these."""
    if place in _places:
        return
    _places.append(place)
    sys.path_importer_cache.pop(place, None)
    if place not in sys.path:
        sys.path.append(place)


class _ProjectFinder(importlib.machinery.FileFinder):
    def find_spec(self, fullname, target=None):
        spec = super().find_spec(fullname, target)
        # The package of a submodule is imported already.
        if spec is None or "." in fullname or _is_project_file(_importer()) or _is_named(fullname):
            return spec
        if fullname not in _refused:
            _refused.add(fullname)
            text = "The file of module `%s` in the project was not loaded, because a library imports it. If that is intended, import the module in a file of the project."
            log(None, "warn", text % fullname)
        return None


def _make_finder(place):
    if place not in _places:
        raise ImportError
    return _ProjectFinder(place, *_LOADERS)


sys.path_hooks.insert(0, _make_finder)


def _importer():
    """The file of the code that imports, without the functions of the import system."""
    frame = sys._getframe(2)
    library = os.path.dirname(importlib.__file__)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and os.path.dirname(file) != library:
            return file
        frame = frame.f_back
    return ""


def _is_project_file(file):
    """True for code of the project, and for this program, which loads the handler files."""
    if file == __file__:
        return True
    inside = any(file.startswith(os.path.join(place, "")) for place in _places)
    return inside and not _INSTALLED.search(file)


def _is_named(name):
    """True if a loaded file of the project has the module in quotes."""
    pattern = re.compile(r"""["']%s["'.]""" % re.escape(name))
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return any(pattern.search(_source_text(file)) for file in files if file and file != __file__ and _is_project_file(file))


def _source_text(file):
    if file not in _source_texts:
        try:
            with open(file, encoding="utf-8", errors="replace") as text:
                _source_texts[file] = text.read()
        except OSError:
            _source_texts[file] = ""
    return _source_texts[file]
