"""What methods and functions of well-known libraries do: which change their object or what they are given, and what their results share."""

import re

from cellwright.notebook.dependencies.model import listed

MODULES = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "mpl": "matplotlib",
    "sns": "seaborn",
    "tf": "tensorflow",
    "K": "tensorflow.keras.backend",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "optim": "torch.optim",
    "sm": "statsmodels.api",
    "smf": "statsmodels.formula.api",
    "px": "plotly.express",
    "go": "plotly.graph_objects",
    "alt": "altair",
    "xr": "xarray",
    "sp": "scipy",
    "nx": "networkx",
    "jnp": "jax.numpy",
    "pl": "polars",
    "dt": "datetime",
    "stats": "scipy.stats",
    "lgb": "lightgbm",
    "xgb": "xgboost",
    "cb": "catboost",
    "ne": "numexpr",
    **{
        name: name
        for name in listed(
            """
            os sys re json math random time datetime itertools functools collections pickle glob shutil logging
            warnings copy csv heapq bisect string statistics urllib requests io gc subprocess pathlib tempfile torch
            torchvision sklearn scipy numpy pandas seaborn matplotlib tensorflow keras jax cv2 nltk spacy joblib
            plotly altair networkx statsmodels xgboost lightgbm gensim textwrap pprint typing operator contextlib
            threading multiprocessing asyncio hashlib base64 zipfile tarfile sqlite3 platform importlib inspect
            traceback uuid secrets ast dask polars duckdb numexpr skimage PIL imageio folium geopandas bs4 tqdm
            IPython ipywidgets
            """
        )
    },
}
"""What the usual names of modules stand for, where the import is in another cell."""

_KNOWN = frozenset(path.partition(".")[0] for path in MODULES.values())
SETTERS = re.compile(
    r"matplotlib(?:\.pyplot)?\.(?:rc|rcdefaults|rc_context|rcParams\.\w+|style\.use|use|set_cmap|switch_backend|ion|ioff|xkcd)"
    r"|seaborn\.(?:set\w*|despine|reset_\w+)|pandas\.(?:set_option|reset_option|options\..*|plotting\.register\w*)"
    r"|numpy\.(?:set\w+|seterr)|warnings\.(?:filterwarnings|simplefilter|resetwarnings)|logging\.(?:basicConfig|disable|addLevelName)"
    r"|tensorflow\.(?:config\..*|compat\.v1\.\w+|get_logger\..*|debugging\.\w+|enable_\w+)|torch\.(?:set_\w+|use_\w+|backends\..*|cuda\.set_\w+)"
    r"|sys\.(?:path\.\w+|set\w+|modules\..*)|altair\.(?:data_transformers|renderers|themes)\..*|keras\..*(?:clear_session|set_\w+)"
    r"|tensorflow\.keras\..*(?:clear_session|set_\w+)|(?:\w+\.)*tqdm\.pandas|plotly\.io\.\w+|locale\.setlocale|decimal\.setcontext"
    r"|spacy\.(?:prefer|require)\w+|nltk\.data\.path\.\w+|(?:\w+\.)*set_(?:option|config|seed|theme|style|options)|cv2\.set\w+"
)
"""Functions that change their module."""

CONTAINER = listed(
    """
    append extend insert add appendleft extendleft update setdefault discard remove clear sort reverse put put_nowait
    """
)
"""Mutators that leave what is inside as it is."""
STORES = frozenset(
    ["append", "extend", "insert", "add", "appendleft", "extendleft", "update", "setdefault", "put", "put_nowait"]
)
"""Mutators after which the object holds what it was given."""
MUTATORS = CONTAINER | listed(
    """
    pop popleft popitem fit fit_transform fit_predict fit_resample partial_fit fit_generator fit_on_texts
    train_on_batch get_nowait read readline readlines write writelines writerow writerows seek truncate send throw
    close flush next backward step zero_grad load_state_dict load_weights set_weights set_state set_params execute
    executemany executescript commit fetchone fetchmany fetchall rollback difference_update intersection_update
    symmetric_difference_update subtract move_to_end rotate fill itemset resize put setflags byteswap setfield
    partition_inplace normal uniform integers random choice choices shuffle permutation permuted standard_normal
    randint rand randn poisson binomial exponential standard_cauchy getrandbits randrange gauss random_sample
    lognormal multivariate_normal dirichlet gumbel laplace logistic multinomial triangular vonmises weibull bytes seed
    manual_seed spawn add_node add_nodes_from add_edge add_edges_from add_weighted_edges_from remove_node
    remove_nodes_from remove_edge remove_edges_from add_module register_buffer register_hook register_forward_hook
    compile build learn train eval add_trace add_traces update_layout update_traces update_xaxes update_yaxes
    set_title set_xlabel set_ylabel
    """
)
"""Methods that change their object, also where their value is used."""
RETURNING = listed(
    """
    pop popleft popitem setdefault fit fit_transform fit_predict fit_resample partial_fit train_on_batch get_nowait
    read readline readlines write writelines writerow send next backward step zero_grad load_state_dict execute
    executemany fetchone fetchmany fetchall seek learn normal uniform integers random choice choices shuffle
    permutation permuted standard_normal randint rand randn poisson binomial exponential getrandbits randrange gauss
    random_sample lognormal multivariate_normal dirichlet gumbel laplace logistic multinomial triangular spawn
    """
)
"""Those that also give a value. Of the others, one whose value is used is another method of that name, which gives a changed copy."""
THROUGH = re.compile(r"(?!__).*[^_]_")
"""Methods of torch that work in place, such as `zero_`."""
_COMMAND = re.compile(
    r"(?:run|setup|set|add|init|initiali[sz]e|reset|start|stop|train|compile|build|solve|simulate|optimi[sz]e|register|configure"
    r"|prepare|update|insert|remove|delete|clear|connect|seed|push|advance|evolve|integrate|minimi[sz]e|load|process|declare)(?:_\w+)?"
)
"""Methods that are told to do something: also where what they give back is shown."""
_TAKES = re.compile(r"(?:read|next|fetch|recv|receive)_\w+")
"""Methods that take the next of something from their object."""
PURE = listed(
    """
    head tail describe info show plot print items keys values join copy deepcopy count index format split rsplit strip
    lstrip rstrip replace lower upper title capitalize startswith endswith encode decode isdigit isalpha find rfind
    mean sum std var min max median mode quantile corr cov abs round any all prod cumsum cumprod nunique unique
    value_counts isna isnull notna notnull astype apply map applymap agg aggregate transform groupby pivot pivot_table
    melt merge concat query filter where mask drop dropna fillna drop_duplicates duplicated sort_values sort_index
    reset_index set_index rename reindex sample nlargest nsmallest select_dtypes assign shift diff pct_change rolling
    resample expanding ewm stack unstack explode crosstab memory_usage hist boxplot bar barh scatter line pie kde area
    box hexbin imshow contour contourf savefig predict predict_proba decision_function score transform
    inverse_transform summary evaluate get parameters named_parameters state_dict children modules numpy tolist item
    detach cpu size dim view reshape flatten ravel squeeze unsqueeze transpose permute argmax argmin argsort nonzero
    dot matmul clip searchsorted conj astype tobytes isin between equals eq ne lt gt le ge add_prefix add_suffix
    idxmax idxmin rank interpolate ffill bfill collect count printSchema limit select withColumn display take first
    toPandas schema dtypes cache explain createOrReplaceTempView most_common exists is_file is_dir iterdir glob
    resolve issubset issuperset union intersection difference most_similar similarity compute persist wait result join
    is_alive cuda to float half double debug warning error critical exception log heatmap figure nodes edges degree
    neighbors number_of_nodes number_of_edges status_code raise_for_status json text prettify iterrows itertuples pipe
    style highlight_max highlight_min background_gradient isoformat strftime timestamp total_seconds get_params
    get_feature_names get_feature_names_out kneighbors cross_val_score explained_variance_ratio_ best_score_ save dump
    dumps to_frame to_numpy to_dict to_string to_html to_markdown to_list save_model save_pretrained save_weights
    tolist squeeze
    """
)
"""Methods that leave their object as it is, also where their value is thrown away."""
_PURE_START = re.compile(
    r"(?:to|is|has|get|plot|show|print|draw|display|select|save|export|view|check|list|count|describe|dump|predict|log)_?[a-zA-Z]*(?:_\w+)?$"
)
_IMPURE_START = re.compile(r"(?:isolate|tokenize|hash|torture|countdown|logout|login|list_append|get_and|get_or)")

VIEWS = listed(
    """
    T values real imag flat array data mT H A A1 iat at loc iloc ix
    """
)
"""Attributes with the same memory as their object."""
PLAIN = listed(
    """
    shape size ndim dtype dtypes columns index name names empty itemsize nbytes device __name__ __class__ __doc__ date
    year month day
    """
)
"""Attributes that cannot be changed in place."""
VIEW_METHODS = listed(
    """
    view ravel reshape transpose squeeze unsqueeze swapaxes permute expand expand_as narrow diagonal detach numpy
    swapdims movedim flatten contiguous unbind chunk split_with_sizes unfold astype_view to_numpy __getitem__
    """
)
OWN_METHODS = listed(
    """
    fit partial_fit set_params eval train to cuda cpu float half double requires_grad_ compile set_output reset
    __enter__ add_trace update_layout update_traces open
    """
)
"""Methods that give their own object back."""
ELEMENTS = listed(
    """
    get setdefault pop popleft popitem named_steps get_layer get_group parameters named_parameters children modules
    named_children flatten add_subplot gca __next__ get_submodule layers
    """
)
"""Methods that give what lies in their object."""
KEEPERS = frozenset(
    [
        "groupby",
        "rolling",
        "expanding",
        "resample",
        "ewm",
        "items",
        "keys",
        "values",
        "style",
        "iterrows",
        "rows",
        "cursor",
    ]
)
"""Methods whose result goes on looking at their object."""
LAZY = listed(
    """
    iter map filter zip enumerate reversed partial chain cycle islice product tee starmap takewhile dropwhile
    accumulate
    """
)
"""Functions whose result goes on reading what they were given."""
USED_UP = LAZY - {"partial"} | listed(
    """
    open default_rng RandomState Random Generator reader DictReader TextIOWrapper Faker scandir iglob StringIO BytesIO
    manual_seed
    """
)
"""Functions whose result is used up, or moved on, by being read."""
OVER = listed(
    """
    enumerate zip reversed sorted list tuple iter tqdm trange product chain cycle islice set frozenset track
    progress_bar
    """
)
"""Functions whose elements are those of what they were given."""
SAME_MEMORY = listed(
    """
    asarray asanyarray ascontiguousarray atleast_1d atleast_2d atleast_3d ravel reshape transpose squeeze expand_dims
    swapaxes moveaxis broadcast_to from_numpy as_tensor frombuffer DataFrame Series diag cast memoryview
    """
)
FRESH = listed(
    """
    DataFrame Series Index Path Decimal Fraction Counter Categorical Timestamp Timedelta MultiIndex Tensor LongTensor
    FloatTensor
    """
)
"""Constructors that copy what they are given, or to which it cannot be given in place."""
CHANGE_FIRST = re.compile(
    r"(?:random|numpy\.random)\.shuffle|heapq\.heap\w+|bisect\.insort\w*|numpy\.\w+\.at|numpy\.(?:copyto|fill_diagonal|put\w*|place|put_along_axis|random\.shuffle)"
    r"|(?:torch\.)?nn\.init\.\w+|(?:torch\.)?nn\.utils\.\w+|operator\.(?:setitem|delitem|i\w+)|collections\.deque\.\w+|csv\.writer\..*"
    r"|cv2\.(?:rectangle|circle|line|putText|drawContours|polylines|fillPoly|ellipse|arrowedLine|fillConvexPoly|drawKeypoints|drawMatches)"
    r"|(?:scanpy|sc)\.(?:pp|tl)\.\w+|networkx\.(?:set_\w+|relabel_nodes|add_\w+|remove_\w+)|ImageDraw\..*|next|setattr|delattr"
    r"|shuffle|heappush|heappop|heapify|heappushpop|heapreplace|insort|insort_left|insort_right|clip_grad_norm_?|kaiming_\w+|xavier_\w+"
)
"""Functions that change their first argument."""
CHANGE_SECOND = re.compile(r"(?:json|pickle|cloudpickle|dill|yaml|marshal|joblib)\.dump")
PURE_FUNCTIONS = listed(
    """
    print display len type id repr str int float bool list dict tuple set frozenset sorted sum min max abs round range
    zip enumerate map filter any all isinstance issubclass callable hasattr getattr input open format hash iter
    reversed super help dir vars pprint HTML Markdown Image Latex Audio Video IFrame clear_output tqdm trange sleep
    interact interactive interactive_output plot_tree plot_confusion_matrix deepcopy copy quit exit
    """
)
"""Functions that leave what they are given as it is, also where their value is thrown away."""
READS_ALL = frozenset(
    {
        "exec",
        "eval",
        "globals",
        "execfile",
        "run_path",
        "run_module",
        "_getframe",
        "currentframe",
        "locals",
        "vars",
        "dir",
    }
)
"""Functions that reach any name."""
TEXT_READS = re.compile(r"duckdb\.(?:sql|query|execute|from_query)|pandas\.eval|numexpr\.evaluate")
"""Functions that take the names of variables from a text."""


def is_pure_method(name: str) -> bool:
    """Whether a method leaves its object as it is, although its value is thrown away."""
    if name in PURE:
        return True
    return name not in MUTATORS and _PURE_START.match(name) is not None and _IMPURE_START.match(name) is None


def is_mutator(name: str, *, used: bool, arguments: bool) -> bool:
    """Whether a method changes its object, by its name and by whether its value is used."""
    if used:
        bare = name in {"train", "eval"} and not arguments
        taken = name in RETURNING or _TAKES.fullmatch(name) is not None
        return bare or taken or (name.endswith("_") and THROUGH.fullmatch(name) is not None)
    commanded = _COMMAND.fullmatch(name) is not None and not is_pure_method(name)
    return name in MUTATORS or commanded or (name.endswith("_") and THROUGH.fullmatch(name) is not None)


def is_known(path: str) -> bool:
    """Whether a function is of a well-known library."""
    return path.partition(".")[0] in _KNOWN


def is_constructor(name: str) -> bool:
    """Whether a called name looks like that of a class."""
    return name[:1].isupper() and not name.isupper() and name not in FRESH
