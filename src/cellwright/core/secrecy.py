"""Which files hold secrets, judged by their names: one list for every tool, resource and search that reads."""

import re
import unicodedata

from cellwright.core.errors import CellwrightError

SECRET_NAMES = frozenset(
    {
        ".env", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf",
        ".mylogin.cnf", ".npmrc", ".yarnrc.yml", ".pypirc", ".htpasswd", ".git-credentials", ".dockercfg", ".dockerconfigjson",
        "credentials", "kubeconfig", "token", "tokens.json", "serve-token", ".boto", ".s3cfg", ".vault-token", ".terraformrc",
        ".authinfo", ".msmtprc", ".fetchmailrc", ".smbcredentials", ".passwd-s3fs", ".databrickscfg", ".sentryclirc", ".dev.vars",
        ".curlrc", ".wgetrc", ".yarnrc", ".condarc", "pip.conf", "pip.ini", ".renviron", ".rhistory", ".xauthority", ".iceauthority",
        ".claude.json", "auth.json", "oauth_creds.json", "kaggle.json", "key3.db", "key4.db",
        "logins.json", "cookies", "login data", "bash_history", "zsh_history", "python_history", "psql_history", "mysql_history",
        "sqlite_history", "node_repl_history",
        ".lesshst", ".viminfo", "fish_history", "consolehost_history.txt", "notebook_secret", "notebook_cookie_secret",
        "jupyter_cookie_secret",
    }
)  # fmt: skip
SECRET_BEGINNINGS = (".env.", ".env-", ".env_", "credentials.", "secrets.", "secret.")
SECRET_ENDINGS = (
    ".env", ".pem", ".key", ".p12", ".p8", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".gpg", ".tfstate", ".tfvars", ".token",
    "private-key.json", "private_key.json", "gcp-key.json", "gcp_key.json", "account-key.json", "account_key.json",
)  # fmt: skip
_SECRET_SHAPES = re.compile(
    r"id_.*_sk|(?:client_secret|service-account|service_account).*\.json|.*[-_.]credentials\.json|\..+_history"
    r"|(?:jp|nb)server-[0-9]+\.json|kernel-[0-9a-f-]+\.json|jupyter_[a-z]+_config\.json",
    re.DOTALL,
)
"""Hardware keys, accounts of cloud services, histories of shells, and files that give access to Jupyter."""
SECRET_FOLDERS = frozenset(
    {
        ".ssh", ".ssh2", ".putty", ".gnupg", ".age", ".pki", ".vnc", ".mozilla", ".thunderbird", ".oci", ".aliyun", ".bluemix",
        ".fly", ".ngrok2", ".cloudflared", ".terraform.d", ".netlify", ".m2", ".gradle",
        ".aws", ".azure", ".kube", ".docker", ".password-store", ".jupyter", ".ipython", ".git", ".hg", ".svn",
    }
)  # fmt: skip
SECRET_PLACES = (
    ".config/github-copilot", ".config/glab-cli", ".config/containers", ".config/doctl", ".config/hcloud", ".config/linode-cli",
    ".config/fly", ".config/heroku", ".config/netlify", ".config/stripe", ".config/ngrok", ".config/configstore", ".config/sops",
    ".config/age", ".config/filezilla", ".config/google-chrome", ".config/chromium", ".config/bravesoftware", ".config/openai",
    ".config/pulse", ".config/composer", ".subversion/auth", ".local/share/containers", ".local/share/kwalletd",
    ".local/share/python_keyring",
    ".config/gh", ".config/hub", ".config/gcloud", ".config/rclone", ".config/op", ".config/cellwright", ".local/state/cellwright",
    ".local/share/keyrings", ".local/share/jupyter/runtime",
)  # fmt: skip
"""Folders that are recognized together with the folder above them."""
COPIES = ("~", "#", ".bak", ".old", ".orig", ".save", ".backup", ".swp", ".swo")
"""What editors and people add to the name of a copy. Copies made by vim also begin with a dot, those of Emacs with # or .#."""
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Me", "Mn", "Zl", "Zp", "Zs"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_COPY = re.compile(rf"(?:{'|'.join(map(re.escape, COPIES))})+\Z|\A\.(?=.*\.sw[op]\Z)|\A\.?#", re.DOTALL)
NO_SECRETS = (
    ".example",
    ".sample",
    ".template",
    ".dist",
    ".pub",
    ".py",
    ".js",
    ".ts",
    ".go",
    ".rs",
    ".java",
    ".cs",
    ".ipynb",
)
"""Samples, programs and notebooks."""


class SecretFile(CellwrightError):
    code = "SECRET_FILE"
    meaning = (
        "The file is of a kind that holds secrets (.env, keys, credentials), which is not shown unless the operator allows it, or one "
        "of cellwright's or Jupyter's own (state, settings, runtime files), which is never shown."
    )


def is_secret(path: str) -> bool:
    """Whether a file holds secrets by its name, or is in a folder that does. Samples, programs and notebooks do not."""
    folder, _, name = path.rpartition("/")
    return is_secret_folder(folder) or is_secret_name(name)


def is_secret_folder(path: str) -> bool:
    """Whether a folder, or one above it, is meant for secrets."""
    if not path:
        return False
    plain = _plain(path)
    return not SECRET_FOLDERS.isdisjoint(plain.split("/")) or any(
        f"/{place}/" in f"/{plain}/" for place in SECRET_PLACES
    )


def is_secret_name(name: str) -> bool:
    lower = _plain(name)
    is_copy = lower.endswith(COPIES) or lower.startswith(("#", ".#"))
    return _holds_secrets(lower) or (is_copy and _holds_secrets(_COPY.sub("", lower)))


def _plain(name: str) -> str:
    """The visible characters of a name, in lower case: a line break at its end, from a script with foreign line ends, hides nothing."""
    lower = name.casefold()
    if not (lower.isascii() and lower.isprintable()):
        lower = "".join(filter(_is_visible, unicodedata.normalize("NFKD", lower)))
    return "/".join(part.strip() for part in lower.split("/")) if " " in lower else lower


def _is_visible(letter: str) -> bool:
    return letter == " " or (unicodedata.category(letter) not in _INVISIBLE_CATEGORIES and letter not in _BLANK_LETTERS)


def _holds_secrets(lower: str) -> bool:
    return not lower.endswith(NO_SECRETS) and (
        lower in SECRET_NAMES
        or lower.startswith(SECRET_BEGINNINGS)
        or lower.endswith(SECRET_ENDINGS)
        or ("firebase-adminsdk" in lower and lower.endswith(".json"))
        or _SECRET_SHAPES.fullmatch(lower) is not None
    )
