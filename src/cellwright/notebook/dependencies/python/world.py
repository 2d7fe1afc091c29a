"""What calls do beside variables: to random numbers, files, the working folder and the environment."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.notebook.dependencies.model import (
    ANY_FILE,
    ENVIRONMENT,
    FILES,
    FOLDER,
    NONE,
    RANDOM,
    RANDOM_OF_PYTHON,
    RANDOM_OF_TORCH,
    RANDOMS,
    Names,
    file_named,
    listed,
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call, as far as it matters here."""

    path: str
    """The name of the function with its module, such as `numpy.random.rand`, or of a method alone."""
    is_method: bool
    texts: Sequence[str | None]
    """The literal texts that it is given in order, None for what is none."""
    keywords: frozenset[str]
    mode: str | None = "r"
    """The mode of opening; None if it is not a literal text."""
    own_text: str | None = None
    """The literal path of `Path("x").read_text()`."""

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Touch:
    uses: Names = NONE
    defines: Names = NONE
    changes: Names = NONE


NOTHING = Touch()
_SEEDS = re.compile(
    r"(?:random|numpy\.random)\.(?:seed|setstate|set_state)|torch\.(?:manual_seed|set_rng_state|random\.manual_seed)"
    r"|tensorflow\.(?:random\.set_seed|set_random_seed|compat\.v1\.set_random_seed)|(?:tensorflow\.)?keras\.utils\.set_random_seed"
)
_SEEDS_PLAIN = frozenset(
    {"seed_everything", "set_seed", "set_all_seeds", "seed_torch", "set_random_seed", "manual_seed"}
)
_DRAWS = re.compile(
    r"(?:random|numpy\.random)\.(?!default_rng|RandomState|Generator|SeedSequence|Random$|SystemRandom|PCG64|MT19937|Philox|getstate|get_state)"
    r"[a-z]\w*|torch\.(?:rand\w*|normal|bernoulli|multinomial|poisson)|torch\.nn\.(?!functional|init|utils|Module|\w*Loss)[A-Z]\w*"
    r"|torch\.nn\.(?:init\.\w+|functional\.dropout\w*)|torch\.utils\.data\.random_split|tensorflow\.random\.\w+|scipy\.stats\.\w+\.rvs"
    r"|(?:tensorflow\.)?keras\.layers\.[A-Z]\w*|nn\.(?:Linear|Conv\w+|Embedding|LSTM|GRU|RNN|Transformer\w*|MultiheadAttention|BatchNorm\w+)"
)
_DRAWS_PLAIN = listed(
    """
    randint uniform shuffle choice choices randrange gauss rand randn random_split Linear Conv2d Dense Conv2D
    Embedding LSTM GRU Conv1D Conv1d rvs sample random_uniform random_normal
    """
)
_STATES = {"numpy": frozenset({RANDOM}), "random": frozenset({RANDOM_OF_PYTHON})}
_OF_KERAS = re.compile(r"Dense|Conv2D|Conv1D|Sequential|Model|Dropout")
_OF_TORCH = re.compile(r"Linear|Conv[12]d|DataLoader|random_split|LSTM|GRU|Embedding")
_DRAWS_UNLESS_STATED = re.compile(
    r"train_test_split|cross_val_\w+|cross_validate|permutation_importance|resample|learning_curve|validation_curve"
    r"|make_(?:classification|regression|blobs|moons|circles|s_curve|swiss_roll|sparse\w*|friedman\d|gaussian_quantiles|multilabel\w*)|random_split"
)
_RANDOM_CODE = re.compile(
    r"(?:Random|ExtraTree|ExtraTrees|GradientBoosting|HistGradientBoosting|DecisionTree|AdaBoost|Bagging|MLP|SGD|MiniBatch|Bayesian)\w*"
    r"|KMeans|TSNE|UMAP|PCA|TruncatedSVD|NMF|LatentDirichletAllocation|GaussianMixture|IsolationForest|SMOTE\w*|RandomOverSampler"
    r"|RandomUnderSampler|LogisticRegression|LinearSVC|SVC|Lasso\w*|ElasticNet\w*|Perceptron|PassiveAggressive\w*|FastICA|Sequential|Model"
    r"|Stratified\w+|KFold|ShuffleSplit|\w*SearchCV|XGB\w+|LGBM\w+|CatBoost\w+|DataLoader|Birch|SpectralClustering|Dropout"
)
_WITHOUT_CHANCE = frozenset({"random_state", "seed", "generator", "key", "rng", "random_seed"})
_READERS = re.compile(
    r"(?:pandas|geopandas|polars|dask\.dataframe)\.(?:read_\w+|scan_\w+)|numpy\.(?:load|loadtxt|genfromtxt|fromfile|memmap)|joblib\.load|torch\.load|cv2\.imread"
    r"|(?:PIL\.)?Image\.open|(?:matplotlib\.(?:pyplot|image)|imageio|skimage\.io)\.imread|xarray\.(?:open|load)_\w+|scipy\.io\.\w*(?:load|read)\w*"
    r"|(?:tensorflow\.)?keras\.models\.load_model|tensorflow\.io\.read_file|torchaudio\.load|librosa\.load|os\.(?:path\.(?:exists|isfile|isdir|"
    r"getsize|getmtime)|stat|listdir|walk|scandir)|glob\.i?glob|zipfile\.ZipFile|tarfile\.open|gzip\.open|spacy\.load|fits\.open|h5py\.File"
    r"|sqlite3\.connect|yaml\.safe_load_file|load_model|imread|read_\w+|load_data"
)
_LISTS = re.compile(r"os\.(?:listdir|walk|scandir)|glob\.i?glob")
_WRITERS = re.compile(
    r"numpy\.(?:save\w*|tofile)|torch\.save|joblib\.dump|cv2\.imwrite|(?:os|shutil)\.(?:remove|unlink|rename|replace|makedirs|mkdir|rmdir|rmtree|"
    r"copy\w*|move|symlink|truncate|unpack_archive|make_archive)|urllib\.request\.urlretrieve|(?:\w+\.)*(?:savefig|imsave|imwrite|savetxt|savemat)"
    r"|urlretrieve|wget\.download|gdown\.download|subprocess\.\w+|os\.(?:system|popen)|sqlite3\.connect|h5py\.File|nltk\.download"
)
_TARGET_SECOND = re.compile(
    r"torch\.save|joblib\.dump|urllib\.request\.urlretrieve|urlretrieve|(?:os|shutil)\.(?:rename|replace|copy\w*|move|symlink)"
)
_METHOD_WRITES = re.compile(
    r"to_(?:csv|excel|parquet|pickle|json|hdf|feather|html|latex|markdown|stata|netcdf|zarr|file|sql)"
    r"|write_(?:text|bytes|html|image|csv|parquet|json|video)|savefig|save|save_model|save_weights|save_pretrained|tofile|unlink|rename|mkdir|touch|rmdir|extractall|extract|dump|savetxt"
)
_NEEDS_TARGET = re.compile(r"to_(?:csv|json|html|latex|markdown)")
"""Without a file they give a text."""
_PATH_READS = frozenset(["read_text", "read_bytes", "exists", "is_file", "is_dir", "iterdir", "stat", "rglob"])
_FILE_NAME = re.compile(r"[\w./\\ -]*\w\.[A-Za-z]\w{0,4}")
"""A text that looks like the name of a file."""
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


def touched(call: Call) -> Touch:
    """What a call does to random numbers, files, the folder and the environment."""
    if call.is_method:
        return _method(call)
    place = _place(call)
    if place is not None:
        return place
    path, last = call.path, call.last
    if _SEEDS.fullmatch(path) or last in _SEEDS_PLAIN:
        return Touch(defines=_states_of(path))
    stated = call.keywords & _WITHOUT_CHANCE
    if _DRAWS.fullmatch(path) or path in _DRAWS_PLAIN or (_DRAWS_UNLESS_STATED.fullmatch(last) and not stated):
        return _draws(_states_of(path))
    if path in {"open", "io.open", "codecs.open", "gzip.open", "bz2.open", "tarfile.open"}:
        return _opened(call.texts[0] if call.texts else None, call.mode)
    touch = _files(call)
    return _named_files(call) if touch == NOTHING else touch


def _place(call: Call) -> Touch | None:
    """What a call does to the folder and the environment; None if it is about neither."""
    path = call.path
    if path in {"os.chdir", "os.fchdir"}:
        folder = frozenset({FOLDER})
        return Touch(defines=folder) if _is_absolute(call.texts) else Touch(folder, NONE, folder)
    if path in {"os.getcwd", "os.path.abspath", "os.path.realpath", "pathlib.Path.cwd"}:
        return Touch(uses=frozenset({FOLDER}))
    environment = frozenset({ENVIRONMENT})
    if path in {"os.getenv", "os.environ.get"}:
        return Touch(uses=environment)
    if path.startswith(("os.environ.", "os.putenv", "os.unsetenv")) or call.last == "load_dotenv":
        return Touch(environment, NONE, environment)
    return None


def code_draws(call: Call) -> Names:
    """From which states of random numbers the object draws that the call makes, when it is used."""
    if _RANDOM_CODE.fullmatch(call.last) is None or call.keywords & _WITHOUT_CHANCE:
        return NONE
    return _states_of(call.path)


def _states_of(path: str) -> Names:
    """The states of random numbers that a function has to do with."""
    root, _, last = path.partition(".")
    if root in {"tensorflow", "keras"} or _OF_KERAS.fullmatch(path):
        states = RANDOMS - {RANDOM_OF_TORCH}
    elif root in {"torch", "nn"} or _OF_TORCH.fullmatch(path):
        states = frozenset({RANDOM_OF_TORCH})
    elif root not in _STATES and (path in _SEEDS_PLAIN or last in _SEEDS_PLAIN):
        states = RANDOMS
    elif path in _DRAWS_PLAIN:
        states = frozenset({RANDOM, RANDOM_OF_PYTHON})
    else:
        states = _STATES.get(root, frozenset({RANDOM}))
    return states


def _draws(states: Names) -> Touch:
    return Touch(uses=states, changes=states)


def _files(call: Call) -> Touch:
    first = call.texts[0] if call.texts else None
    touch = NOTHING
    if _READERS.fullmatch(call.path):
        touch = _read(None if _LISTS.fullmatch(call.path) else first, listing=_LISTS.fullmatch(call.path) is not None)
    if _WRITERS.fullmatch(call.path):
        second = call.texts[1] if len(call.texts) > 1 else None
        target = second if _TARGET_SECOND.fullmatch(call.path) else first
        if call.last in {"savefig", "imsave"} and target is None:
            return touch
        written = _written(target, whole=call.path not in {"sqlite3.connect", "h5py.File"})
        touch = Touch(touch.uses | written.uses, written.defines, written.changes)
    return touch


def _method(call: Call) -> Touch:
    if call.last in {"sample", "rvs"} and not call.keywords & _WITHOUT_CHANCE:
        return _draws(frozenset({RANDOM}))
    if call.last in _PATH_READS and not call.texts:
        return _read(call.own_text, listing=call.last in {"iterdir", "rglob"})
    if call.last == "open" and call.own_text is not None:
        return _opened(call.own_text, call.mode)
    if call.last in {"write", "export"} and call.texts and _FILE_NAME.fullmatch(call.texts[0] or ""):
        return _written(call.texts[0])
    return _method_writes(call) if _METHOD_WRITES.fullmatch(call.last) else _named_files(call)


def _named_files(call: Call) -> Touch:
    """The files that an unknown function may read, because it is given their names."""
    names = [text for text in call.texts if text is not None and _FILE_NAME.fullmatch(text)]
    return Touch(uses=frozenset(map(_file, names)))


def _method_writes(call: Call) -> Touch:
    if call.own_text is not None:
        return _written(call.own_text)
    first = call.texts[0] if call.texts else None
    given = bool(call.texts) or bool(call.keywords & {"path_or_buf", "path", "excel_writer", "buf", "fname"})
    if (_NEEDS_TARGET.fullmatch(call.last) and not given) or (call.last == "savefig" and first is None):
        return NOTHING
    return _written(None if call.last in {"write_text", "write_bytes", "to_sql"} else first)


def _opened(name: str | None, mode: str | None) -> Touch:
    if mode is None:
        both = _read(name), _written(name, whole=False)
        return Touch(both[0].uses | both[1].uses, NONE, both[1].changes)
    if "w" in mode or "x" in mode:
        return _written(name)
    return _written(name, whole=False) if "a" in mode or "+" in mode else _read(name)


def _read(name: str | None, *, listing: bool = False) -> Touch:
    if name is None or listing:
        return Touch(uses=frozenset({FILES, ANY_FILE, FOLDER}))
    if _ADDRESS.match(name):
        return NOTHING
    return Touch(uses=frozenset({_file(name), FILES}) | _folder(name))


def _written(name: str | None, *, whole: bool = True) -> Touch:
    if name is None:
        return Touch(uses=frozenset({FOLDER}), changes=frozenset({FILES, ANY_FILE}))
    file = frozenset({_file(name)})
    if whole:
        return Touch(_folder(name), file, frozenset({ANY_FILE}))
    return Touch(_folder(name) | file, NONE, file | {ANY_FILE})


def _file(name: str) -> str:
    return file_named(posixpath.normpath(name.replace("\\", "/"))[:200])


def _folder(name: str) -> Names:
    return NONE if _is_absolute([name]) else frozenset({FOLDER})


def _is_absolute(texts: Sequence[str | None]) -> bool:
    name = texts[0] if texts else None
    return (name is not None and name.startswith(("/", "~", "\\"))) or (name is not None and name[1:2] == ":")
