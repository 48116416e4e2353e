"""The callbacks of other frameworks, with stand-ins that call them as the real ones do.

`make test` does not install Lightning, Transformers and Keras; the stand-ins have only the names
that the callbacks use, so a call of anything else fails here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FRAMEWORKS = ("torch", "lightning", "transformers", "keras")

LIGHTNING = """
import sys, types
callbacks = types.ModuleType("lightning.pytorch.callbacks")
callbacks.Callback = object
for name in ("lightning", "lightning.pytorch"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["lightning.pytorch.callbacks"] = callbacks

from dovetail.sdk.lightning import DovetailCallback, last_checkpoint

class Strategy:
    def reduce_boolean_decision(self, decision, all):
        return decision

class Trainer:
    is_global_zero, logged_metrics, global_step, strategy = True, {"loss": 0.5}, 7, Strategy()
    def save_checkpoint(self, path):
        path.write_text("saved")

print(last_checkpoint())
DovetailCallback().on_train_batch_end(Trainer(), None, None, None, 0)
"""

HUGGING_FACE = """
import sys, types
transformers = types.ModuleType("transformers")
transformers.TrainerCallback = object
sys.modules["transformers"] = transformers
torch = types.ModuleType("torch")  # the real one takes seconds to import
torch.distributed = types.SimpleNamespace(is_available=lambda: False)
sys.modules["torch"] = torch

from dovetail import sdk
from dovetail.sdk.huggingface import DovetailCallback, last_checkpoint

state = types.SimpleNamespace(global_step=7, is_world_process_zero=True)
control = types.SimpleNamespace(should_save=False)
callback = DovetailCallback()
print(last_checkpoint())
callback.on_log(None, state, control, logs={"loss": 0.5, "note": "text"}, model=None)
callback.on_save(None, state, control)  # an ordinary one: goes on
callback.on_step_end(None, state, control)
if control.should_save:
    for step, whole in ((9, True), (10, True), (11, False)):
        folder = sdk.checkpoint_dir() / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").touch() if whole else None
    callback.on_save(None, state, control)
"""

KERAS = """
import sys, types
keras = types.ModuleType("keras")
class Callback:
    def __init__(self): pass
keras.callbacks = types.SimpleNamespace(Callback=Callback)
sys.modules["keras"] = keras

from dovetail.sdk.keras import DovetailCallback

class Model:
    trainable_variables = ()
    optimizer = types.SimpleNamespace(build=lambda variables: None)
    def save_weights(self, path, overwrite): path.write_text("saved")
    def load_weights(self, path): assert path.read_text() == "saved"

callback = DovetailCallback()
callback.model = Model()
first = callback.restore(callback.model)
print(first or None)
callback.on_epoch_end(first + 6, {"loss": 0.5})
"""


@pytest.mark.parametrize(
    ("script", "saved"),
    [
        (LIGHTNING, "lightning.ckpt"),
        (HUGGING_FACE, "checkpoint-10"),
        (KERAS, "7"),
    ],
    ids=["lightning", "huggingface", "keras"],
)
def test_a_callback_reports_saves_leaves_and_finds_its_checkpoint(
    desk: Any, script: str, saved: str
) -> None:
    desk.stop.touch()
    assert desk.run("-c", script, code=85)[0] == "None\n"
    assert desk.reported() == [{"step": 7, "loss": 0.5}]
    desk.stop.unlink()
    assert Path(desk.run("-c", script)[0].strip()).name == saved


def test_a_callback_imports_its_framework_only_when_it_is_itself_imported(desk: Any) -> None:
    script = "import sys, dovetail.sdk; print(sorted(set(sys.modules) & set(sys.argv)))"
    assert desk.run("-c", script, *FRAMEWORKS, "numpy")[0] == "[]\n"


def test_who_lacks_the_framework_is_told_which(desk: Any) -> None:
    for module, framework in (("keras", "keras"), ("lightning", "lightning")):
        script = f"import sys; sys.modules['{framework}'] = None; import dovetail.sdk.{module}"
        assert framework in desk.run("-c", script, code=1)[1].splitlines()[-1]


def test_the_modules_of_the_callbacks_are_those_the_page_names() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "report-from-a-training-script.md"
    for name in ("pytorch", "lightning", "huggingface", "keras"):
        assert f"dovetail.sdk.{name}" in page.read_text()
