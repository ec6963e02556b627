"""Build the tables from which the datasets library loads a data set by name offline.

Offline, load_dataset("openai/gsm8k", "main") does not read the Hub's cache: it uses the most recently built table
(datasets 4.0 to 5.2). The build reads the files from the cache, and only the data set's description from the Hub.
"""

from __future__ import annotations

import glob
import os

from hub_cache import cache
from runtime import say


def folders(repository: str, config: str, commit: str) -> list[str]:
    """Return the folders with one configuration's tables, at most one."""
    tables = os.environ.get("HF_DATASETS_CACHE") or os.path.join(os.path.dirname(cache()), "datasets")
    parts = [tables, "___".join(repository.split("/")), config]
    return glob.glob(os.path.join(*map(glob.escape, parts), "*", commit))


def choose(repository: str, commit: str, configs: list[str]) -> bool:
    """Make a commit's tables the newest ones; return whether all of them exist."""
    found = [folders(repository, config, commit) for config in configs]
    for folder in (folder for same in found for folder in same):
        os.utime(folder)
    return bool(found) and all(found)


def build(repository: str, commit: str) -> list[str]:
    """Build the tables of every configuration; return the configurations, or [] if the library is not installed."""
    os.environ |= {"HF_DATASETS_OFFLINE": "0", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    try:
        import datasets
    except ImportError:
        say(f"warning: this image has no library datasets, so {repository} cannot be loaded by name offline")
        return []
    configs = [str(name) for name in datasets.get_dataset_config_names(repository, revision=commit)]
    for config in configs:
        datasets.load_dataset_builder(repository, config, revision=commit).download_and_prepare()
    return configs
