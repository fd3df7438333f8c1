# SPDX-License-Identifier: Apache-2.0
"""All that `numcheck_torch.npu` uses is in the real torch_npu, which is only read."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import get_args

import pytest

import numcheck_torch.npu
from numcheck_torch import npu
from numcheck_torch.npu.attention import MASKS
from numcheck_torch.npu.releases import RELEASED_FOR

pytestmark = pytest.mark.registry

WHEEL = "torch-npu==2.13.0"
PACKAGE = Path(numcheck_torch.npu.__file__).parent

# Every name that is asked for, where torch_npu defines it, and its parameters.
NAMES: dict[str, tuple[str, str, list[str]]] = {
    "utils.is_support_inf_nan": ("npu/utils.py", "is_support_inf_nan", []),
    "get_npu_overflow_flag": ("npu/utils.py", "get_npu_overflow_flag", []),
    "clear_npu_overflow_flag": ("npu/utils.py", "clear_npu_overflow_flag", []),
    "is_bf16_supported": (
        "npu/utils.py",
        "is_bf16_supported",
        ["including_emulation"],
    ),
    "utils.get_soc_version": ("npu/_backends.py", "get_soc_version", []),
    "get_device_name": ("npu/__init__.py", "get_device_name", ["device_name"]),
    "device_count": ("npu/__init__.py", "device_count", []),
    "is_available": ("npu/__init__.py", "is_available", []),
    "init_dump": ("npu/npu_config.py", "init_dump", []),
    "finalize_dump": ("npu/npu_config.py", "finalize_dump", []),
    "set_dump": ("npu/npu_config.py", "set_dump", ["cfg_file"]),
    "set_option": ("npu/npu_config.py", "set_option", ["option"]),
}
SWITCHES = {
    "conv.allow_hf32": "_allowHF32Conv",
    "matmul.allow_hf32": "_allowHF32Matmul",
    "matmul.cube_math_type": "_allowHF32Matmul",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    arguments = (
        "download", WHEEL, "--no-deps", "--dest", str(folder), "--quiet",
        "--platform", "manylinux_2_28_x86_64", "--python-version", "3.11",
        "--only-binary", ":all:",
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], check=False)
    files = list(folder.glob("*.whl"))
    if done.returncode or not files:
        pytest.skip(f"no registry that has {WHEEL}")
    return zipfile.ZipFile(files[0])


def source(wheel: zipfile.ZipFile, path: str) -> ast.Module:
    return ast.parse(wheel.read(f"torch_npu/{path}"))


@pytest.fixture(scope="session")
def schemas(wheel: zipfile.ZipFile) -> dict[str, list[str]]:
    """Return the operators of the ``npu`` namespace and their arguments."""
    (name,) = (n for n in wheel.namelist() if n.endswith("lib/libtorch_npu.so"))
    found: dict[str, list[str]] = {}
    pattern = rb"(_?npu_[a-z0-9_]+)\(([^()\0]*)\) ?->"
    for operator, arguments in re.findall(pattern, wheel.read(name)):
        listed = re.sub(r"\[[^]]*\]", "", arguments.decode()).split(",")
        words = [a.split("=")[0].split() for a in listed]
        names = [w[-1] for w in words if w]
        found.setdefault(operator.decode(), names)
    return found


def asked_for() -> set[str]:
    """Return every name that the package asks torch_npu for."""
    found: set[str] = set()
    for path in PACKAGE.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            owner = getattr(node, "value", None)
            if isinstance(node, ast.Attribute) and getattr(owner, "id", "") == "npu":
                found.add(node.attr)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ask":
                found |= {
                    a.value
                    for a in node.args
                    if isinstance(a, ast.Constant) and isinstance(a.value, str)
                }
    return found


def test_the_table_holds_every_name_that_is_asked_for() -> None:
    assert asked_for() <= {
        *NAMES,
        *SWITCHES,
        "get_npu_format",
        "_C._npu_getOption",
    }


@pytest.mark.parametrize("name", sorted(NAMES))
def test_functions_exist_with_the_parameters_we_pass(
    name: str, wheel: zipfile.ZipFile
) -> None:
    path, function, parameters = NAMES[name]
    defined = {
        node.name: [a.arg for a in node.args.args]
        for node in ast.walk(source(wheel, path))
        if isinstance(node, ast.FunctionDef)
    }
    assert defined[function] == parameters


@pytest.mark.parametrize("name", sorted(NAMES))
def test_functions_are_reached_through_torch_npu_npu(
    name: str, wheel: zipfile.ZipFile
) -> None:
    module, _, function = f"npu.{name}".rpartition(".")
    home = {"npu": "npu/__init__.py", "npu.utils": "npu/utils.py"}[module]
    assert re.search(rf"\b{function}\b", wheel.read(f"torch_npu/{home}").decode())


@pytest.mark.parametrize("switch", sorted(SWITCHES))
def test_precision_switches_are_attributes(switch: str, wheel: zipfile.ZipFile) -> None:
    owner, _, name = switch.partition(".")
    text = wheel.read("torch_npu/npu/npu_config.py").decode()
    body = text.partition(f"class {SWITCHES[switch]}")[2].partition("\nclass ")[0]
    assert f'"{name}"' in body
    exported = wheel.read("torch_npu/npu/__init__.py").decode()
    assert f"{owner} = npu_config.{SWITCHES[switch]}()" in exported


def test_the_options_we_set_exist_with_the_values_we_give(
    wheel: zipfile.ZipFile,
) -> None:
    tree = source(wheel, "npu/npu_config.py")
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and getattr(node.targets[0], "id", "") == "_option_map"
    )
    assert isinstance(table, ast.Dict)
    pairs = zip(table.keys, table.values, strict=True)
    values = {ast.literal_eval(key): value for key, value in pairs if key is not None}
    levels = [str(level) for level in get_args(npu.DebugLevel)]
    assert ast.literal_eval(values["ACL_OP_DEBUG_LEVEL"]) == levels
    assert ast.literal_eval(values["ACL_DEBUG_DIR"]) is None  # any text


def test_options_can_be_asked_for(wheel: zipfile.ZipFile) -> None:
    text = wheel.read("torch_npu/npu/npu_config.py").decode()
    # As bytes, and None where nothing was set.
    assert 'hf32_value = torch_npu._C._npu_getOption("ALLOW_MATMUL_HF32")' in text
    assert 'hf32_value is not None and hf32_value.decode() == "enable"' in text


def test_the_mode_is_decided_by_the_library(wheel: zipfile.ZipFile) -> None:
    text = wheel.read("torch_npu/npu/utils.py").decode()
    assert "return torch_npu._C._npu_is_support_inf_nan()" in text
    library = wheel.read("torch_npu/lib/libtorch_npu.so")
    for variable in (b"INF_NAN_MODE_ENABLE", b"INF_NAN_MODE_FORCE_DISABLE"):
        assert variable in library


def test_chips_have_the_numbers_we_know(wheel: zipfile.ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith("core/npu/NpuVariables.h"))
    enum = wheel.read(name).decode().split("enum class SocVersion")[1].split("}")[0]
    numbers = dict(re.findall(r"(Ascend\w+)\s*=\s*(\d+)", enum))
    assert numbers["Ascend910B1"] == "220"
    assert numbers["Ascend310B1"] == "240"
    assert numbers["Ascend950"] == "260"


def test_the_layout_is_asked_for_by_its_own_name(wheel: zipfile.ZipFile) -> None:
    text = wheel.read("torch_npu/npu/_format.py").decode()
    assert "torch_npu.get_npu_format" in text
    assert "FRACTAL_NZ = 29" in text


def test_the_package_names_the_cann_that_we_name(wheel: zipfile.ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
    rows = re.findall(
        r"^\| *(?:CANN (\S+))? *\| *[\d.]+ *\| *(\d\S*) *\|",
        wheel.read(name).decode(),
        re.MULTILINE,
    )
    table: dict[str, list[str]] = {}
    for cann, release in rows:
        table.setdefault(cann or next(reversed(table)), []).append(release)
    assert len(table) > 5
    for cann, releases in table.items():
        ours = RELEASED_FOR.get(cann, ())
        assert set(ours) <= set(releases), cann
    assert {*RELEASED_FOR} - {*table} == {"9.0.0"}, "newer than this wheel"


def test_fused_attention_takes_the_arguments_we_read(
    schemas: dict[str, list[str]],
) -> None:
    for name in ("npu_fusion_attention", "npu_fusion_attention_v3"):
        wanted = {"query", "key", "input_layout", "atten_mask", "sparse_mode"}
        assert wanted <= set(schemas[name])


def test_forward_attention_has_a_mask_we_know(schemas: dict[str, list[str]]) -> None:
    for name, arguments in schemas.items():
        masks = [a for a in arguments if a.endswith("atten_mask") or a == "attn_mask"]
        if masks and npu.is_fused_attention(name):
            assert set(masks) <= set(MASKS), name


def test_most_operators_have_a_family_or_only_move(
    schemas: dict[str, list[str]],
) -> None:
    assert len(schemas) > 300
    known = [n for n in schemas if npu.classify_npu(n) != ("", "compute")]
    assert len(known) > 0.75 * len(schemas)
