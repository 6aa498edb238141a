"""The names that an answer has no use for; suspicious.py looks for them."""


def words(text) -> frozenset[str]:
    return frozenset(text.split())


# An honest answer may use some of them, such as `threading`; a person then accepts it.
MODULES = words("""
    _ctypes _io _posixsubprocess _thread asyncio atexit builtins cloudpickle code codeop concurrent
    ctypes dill dis faulthandler fcntl ftplib gc glob http imp importlib inspect io IPython joblib
    linecache marshal mmap multiprocessing nbformat nt ntpath os pickle pickletools pip pkgutil
    platform posix psutil pty py_compile pytest requests resource runpy select selectors setuptools
    shelve shutil signal site smtplib socket socketserver sqlite3 ssl subprocess symtable sys
    sysconfig tempfile telnetlib threading trace traceback tracemalloc types unittest urllib
    webbrowser xmlrpc zipfile zipimport zmq
""")
HARMLESS_OF = {  # what an answer may take from them
    "os": words("environ path cpu_count getenv PathLike"),
    "concurrent": words("futures"),
    "io": words("BytesIO StringIO"),
    "types": words("SimpleNamespace"),
    "sys": words("maxsize float_info"),
}
CALLS = words("""
    eval exec compile __import__ breakpoint input globals locals vars setattr delattr exit quit
""")
NAMES = words("__builtins__ __loader__ __spec__ get_ipython")
DUNDERS = words("""
    __subclasses__ __bases__ __base__ __mro__ __globals__ __builtins__ __code__ __closure__
    __loader__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __import__ __dict__
    __class_getitem__ __self__ __func__ __wrapped__ __traceback__
""")
METHODS = words("""
    __reduce__ __reduce_ex__ __getstate__ __setstate__ __del__ __eq__ __ne__ __hash__
    __getattribute__ __instancecheck__ __subclasscheck__ __torch_function__ __torch_dispatch__
    __init_subclass__ __set_name__
""")
FRAMES = words("f_back f_globals f_locals tb_frame gi_frame cr_frame _getframe")
PATHS = words("/proc /etc /sys/ /dev/ chapters solutions conftest sitecustomize ../ /root")
# No answer has to change these.
LIBRARIES = words("torch dist np numpy math pedagogy_lib checking random F nn")
OF_TORCH = words("hub package serialization jit ops classes _C multiprocessing")
# Modules that other modules have as an attribute: torch.os is os.
REACHED_BY = words("""
    builtins ctypes importlib inspect os pickle shutil socket subprocess sys threading
""")
FILE_MODULES = words("tempfile shutil glob")
OF_OS_FILES = words("""
    open write read close fdopen rename replace renames unlink remove removedirs rmdir mkdir
    makedirs fsync fdatasync sync ftruncate truncate stat listdir scandir O_RDONLY O_WRONLY O_RDWR
    O_CREAT O_TRUNC O_APPEND O_EXCL O_DIRECTORY O_SYNC SEEK_SET
""")
OF_PATHS = words("write_text write_bytes unlink symlink_to hardlink_to chmod rmdir touch tofile")
