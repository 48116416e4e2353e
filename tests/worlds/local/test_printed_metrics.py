"""A study's metric is understood in what scripts print for people, without being told how."""

from __future__ import annotations

import time
from math import inf, isnan

import pytest

from dovetail.worlds.local.watching.output import Found, MetricReader, drawn_lines
from dovetail.worlds.printed import Sought, step_in, value_in, without_colours


@pytest.mark.parametrize(
    "line",
    [
        "val_loss=0.31",
        "val_loss: 0.31",
        "val_loss 0.31",
        "val_loss = 3.1e-1",
        "val_loss\t0.31",
        "val_loss -> 0.31.",
        "val_loss is 0.31",
        "Epoch 3/10 - loss: 0.5 - val_loss: 0.31 - lr: 1e-3",
        "10/10 ━━━━━━━━━━ 1s 5ms/step - accuracy: 0.8 - loss: 0.5 - val_loss: 0.3100",
        "{'val_loss': 0.31, 'epoch': 1.0}",
        '{"phase": "eval", "val_loss": 0.31}',
        '{"metrics": {"val_loss": "0.31"}}',
        "INFO:root:val_loss=0.31",
        "2026-11-16 12:00:00,123 [INFO] train: epoch 3, val_loss=0.31, lr=0.1",
        "val_loss: tensor(0.3100, device='cuda:0')",
        "{'val_loss': np.float64(0.31)}",
        "│ val_loss │ 0.31 │",
        "loss=0.5,val_loss=0.31,acc=0.9",
        "(val_loss=0.31)",
        " 30%|███       | 3/10 [00:01<00:02, 2.1it/s, loss=0.5, val_loss=0.31]",
        "Val Loss: 0.31",
        "val-loss 0.31",
        "VAL_LOSS=.31",
        "val_loss=0.31 (best val_loss=0.29)",
        "best val_loss=0.29, val_loss=0.31",
        "best_val_loss=0.29 val_loss=0.31",
        "val_loss=0.31%",
    ],
)
def test_a_line_that_names_the_metric_and_its_value_is_understood(line: str) -> None:
    assert value_in(line, "val_loss") == pytest.approx(0.31)


@pytest.mark.parametrize(
    "line",
    [
        "best_val_loss=0.31",
        "best val_loss: 0.31",
        "Best: val_loss=0.31",
        "val_loss_ema=0.31",
        "val_loss (smoothed): 0.31",
        "ema/val_loss=0.31",
        "target_val_loss=0.31",
        "--val_loss=0.31",
        "Epoch 3: val_loss improved from 0.5 to 0.31, saving model",
        "val_loss did not improve from 0.31",
        "val_loss: None",
        "val_loss: n/a",
        "val_loss=0,31",
        "val_loss=0.3.1",
        "val_loss: 12s",
        "val_loss=[0.3, 0.4]",
        "monitoring val_loss, patience 3",
        "validation loss 0.31",
        "val_loss: 0.40 -> 0.31",
        "val_loss 0.4000 --> 0.3100, saving",
        "val_loss:  40%|████      | 4/10 [00:00<00:01]",
        "no improvement in val_loss 3/10",
        "last val_loss: 0.31",
        "required val_loss: 0.31",
        "Best epoch: 4, val_loss: 0.31",
        "Loaded best model with val_loss=0.31",
        "Current best trial: 1a2b with val_loss=0.31 and lr=0.1",
        "| val_loss | 0.5 | 0.31 |",
        "",
    ],
)
def test_what_may_be_another_quantity_is_not_taken_for_the_metric(line: str) -> None:
    assert value_in(line, "val_loss") is None


@pytest.mark.parametrize(
    ("metric", "line", "value"),
    [
        ("loss", "epoch 1 loss 0.5", 0.5),
        ("loss", "Loss: -1,234.5", -1234.5),
        ("loss", "train loss 0.5, val loss 0.3", None),
        ("loss", "val_loss=0.3 train_loss=0.5", None),
        ("loss", "Validation: loss=0.3", None),
        ("val/loss", "val/loss=0.3", 0.3),
        ("val/loss", "{'val/loss': 0.3}", 0.3),
        ("val/loss", "val_loss: 0.3", 0.3),
        ("top-1", "top-1: 93.5%", 93.5),
        ("acc@5", "acc@1: 70 acc@5: 90", 90.0),
        ("acc", "acc@1: 70", None),
        ("f1", "f1=0.5", 0.5),
        ("test acc", "test acc 0.5", 0.5),
        ("%", "%: 5", 5.0),
        ("accuracy", "    accuracy                           0.87       360", 0.87),
        ("accuracy", "Accuracy: 9870/10000 (99%)", None),
        ("accuracy", "accuracy: 87.00% (87/100)", 87.0),
        ("accuracy", "accuracy: 0,875", None),
        ("accuracy", "balanced accuracy: 0.70, accuracy: 0.87", 0.87),
        ("accuracy", "accuracy | 0.950 | 0.870", None),
        ("accuracy", "| accuracy | 0.87 | lr | 0.1 |", 0.87),
        ("loss", "DEV : loss 0.31", None),
        ("logloss", "[1] training's logloss: 0.60 valid_1's logloss: 0.31", 0.31),
        ("mAP50-95", "mAP50  mAP50-95): 100%|██████████| 4/4 [00:01<00:00]", None),
        ("mAP", "mAP (0.5): 0.31", None),
        ("mAP", "mAP (0.50:0.95) = 0.31", None),
        ("mAP", "mAP 0.5: 0.31", None),
        ("mAP", "mAP (0.31)", 0.31),
        # Of how many guesses, of what part, of what average it is, makes it another quantity.
        ("accuracy", "Top-5 accuracy: 0.95", None),
        ("accuracy", "top5 accuracy 0.95", None),
        ("accuracy", "top 10 accuracy: 0.95, accuracy: 0.7", 0.7),
        ("accuracy", "Top-1 accuracy: 0.70, Top-5 accuracy: 0.95", 0.7),
        ("top-5 accuracy", "Top-5 accuracy: 0.95", 0.95),
        ("loss", "batch loss: 0.5", None),
        ("f1", "macro f1: 0.5", None),
        ("f1-score", "DEV : loss 0.31 - f1-score (micro avg) 0.5", None),
        # A value of this batch, and in brackets the average so far: timm, the examples of PyTorch.
        ("loss", "Train: 0 [  50/ 100 ( 50%)]  Loss: 0.5 (0.6)  Time: 0.1s", None),
        ("loss", "Epoch 3 [ 100/ 100]  Time: 0.1 (0.2)  Loss: 0.5 (0.6)", 0.6),
        ("loss", "Test: [ 100/ 100]  Time: 0.1 (0.2)  Loss: 0.5 (0.6)  Acc@1: 70.0 (71.2)", None),
        ("test_acc@1", "Test: [100/100]  Loss 5.0e-01 (6.0e-01)  Acc@1  70.00 ( 71.20)", 71.2),
        ("val_loss", "train: epoch 3, val_loss=0.31", 0.31),
        ("val_loss", "{'all': {'ema': {'val_loss': 0.31}}}", None),
        ("val_loss", "val_loss: 0.31 (0.29)", None),
        # Objects in objects: whose it is says the key outside.
        ("val_loss", "{'train': {'loss': 0.3}, 'val': {'loss': 0.4}}", 0.4),
        ("loss", "{'train': {'loss': 0.3}, 'val': {'loss': 0.4}}", None),
        ("train_loss", "{'train': {'loss': 0.3}, 'val': {'loss': 0.4}}", 0.3),
        ("val/loss", '{"epoch": 3, "val": {"acc": 0.9, "loss": 0.4}}', 0.4),
        ("val_loss", "{'val': {'ema': {'loss': 0.4}}}", None),
        ("val_loss", "{'val': {'loss': tensor(0.4)}, 'n': {'val': {'loss': 0.5}}}", None),
        ("loss", "{'epoch': 1, 'losses': {'loss': 0.5}}", 0.5),
        ("val_loss", "metrics={'val': {'loss': 0.4}} {", 0.4),
        # A line of one part of the data: fairseq, Flair.
        ("valid_loss", "| valid on 'valid' subset | loss 4.2 | ppl 18", 4.2),
        (
            "val_loss",
            "2026 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4.2 | p 1",
            4.2,
        ),
        (
            "loss",
            "2026 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4.2 | p 1",
            None,
        ),
        ("loss", "2026 | INFO | train | epoch 001 | loss 5.1 | ppl 30", None),
        ("val_loss", "2026 | INFO | train | epoch 001 | loss 5.1 | ppl 30", None),
        ("val_loss", "| train | loss 5.1 | valid | loss 4.2 |", None),
        ("val_loss", "| valid | loss 4.2 | best_loss 4.0", 4.2),
        ("dev_loss", "DEV : loss 0.31 - f1-score (micro avg) 0.5", 0.31),
        ("val_loss", "DEV : loss 0.31 - f1-score (micro avg) 0.5", 0.31),
        ("test_loss", "DEV : loss 0.31", None),
        ("val_loss", "Validation: loss=0.3", 0.3),
        ("val_loss", "valid: best loss 0.3", None),
    ],
)
def test_metrics_of_any_name_are_found_by_it(metric: str, line: str, value: float | None) -> None:
    assert value_in(line, metric) == value


def test_what_is_no_finite_number_is_heard_too() -> None:
    assert isnan(value_in("val_loss=nan", "val_loss") or 0.0)
    assert value_in("val_loss: -inf", "val_loss") == -inf
    assert value_in("val_loss: Infinity", "val_loss") == inf
    assert value_in("val_loss: nano", "val_loss") is None
    (found,) = MetricReader(Sought("val_loss")).found([("val_loss NaN", 9)])
    assert found == Found(None, {"val_loss": "nan"}, 9)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Epoch 3/10 - val_loss: 0.31", 3),
        ("epoch=0003 val_loss=0.31", 3),
        ("Epoch [3][20/100] val_loss 0.31", 3),
        ("[epoch: 3] val_loss 0.31", 3),
        ("{'val_loss': 0.31, 'epoch': 3.0}", 3),
        ("{'val_loss': 0.31, 'epoch': 2.5}", None),
        ("step 3: val_loss 0.31", 3),
        ("global_step=900, epoch 3", 3),
        ("step 3 of epoch 1", 1),
        ("iteration 900 val_loss=0.31", None),  # a whole trial has no more than 27
        ("Epoch:  30%|███   | 3/10 [val_loss=0.31]", None),
        ("best epoch 3", None),
        ("num_epochs=10, epochs 10", None),
        ("5ms/step - val_loss: 0.31", None),
    ],
)
def test_the_step_is_taken_from_the_line_if_it_is_there(line: str, step: int | None) -> None:
    assert step_in(line, 27) == step


def test_colours_do_not_hide_a_metric() -> None:
    line = "\x1b[1;32mval_loss\x1b[0m: \x1b[36m0.31\x1b[0m \x1b]8;;http://x\x07link"
    assert value_in(without_colours(line), "val_loss") == 0.31


def test_a_progress_bar_is_heard_whenever_its_value_changes() -> None:
    bar = "".join(f"\r {n}/9 [val_loss={n // 3}.5]" for n in range(9)) + "\nval_loss=2.5\n"
    lines, upto = drawn_lines(bar.encode(), 0, is_all=False)
    assert upto == len(bar)
    found = MetricReader(Sought("val_loss")).found(lines)
    assert [one.metrics["val_loss"] for one in found] == [0.5, 1.5, 2.5, 2.5]


def test_a_bar_over_batches_is_heard_when_it_is_full() -> None:
    bar = "Epoch {}/2\n\r 1/90 - loss: 2.5\r50/90 - loss: {}\r90/90 - loss: {} - val_loss: 0.4\n"
    lines, _ = drawn_lines((bar.format(1, 1.5, 0.5) + bar.format(2, 0.4, 0.4)).encode(), 0, False)
    found = MetricReader(Sought("loss", 2)).found(lines)
    assert [(one.step, one.metrics["loss"]) for one in found] == [(None, 0.5), (None, 0.4)]


def test_a_bar_over_epochs_is_heard_as_it_goes() -> None:
    bar = "\r 1/3 [00:01<00:02, loss=0.5]\r 2/3 [00:02<00:01, loss=0.4]\r 3/3 [00:03<00:00, loss=0.3]\n"
    lines, _ = drawn_lines(bar.encode(), 0, False)
    found = MetricReader(Sought("loss", 3)).found(lines)
    assert [one.metrics["loss"] for one in found] == [0.5, 0.4, 0.3]


def test_a_bar_is_heard_before_its_line_ends() -> None:
    lines, upto = drawn_lines(b"\rval_loss=1\rval_loss=2\r", 100, is_all=False)
    assert [line for line, _ in lines] == ["val_loss=1\r"]
    assert upto == 100 + len(b"\rval_loss=1\r")
    assert drawn_lines(b"a\r\nb", 0, is_all=True) == ([("a", 3), ("b", 4)], 4)


def test_objects_of_numbers_are_heard_whole() -> None:
    reader = MetricReader(Sought("val_loss", 27))
    lines = [('{"epoch": 3, "val_loss": 0.31, "lr": 0.1}', 1), ('{"loss": 0.5}', 2)]
    assert reader.found(lines) == [
        Found(3, {"epoch": 3.0, "val_loss": 0.31, "lr": 0.1}, 1),
        Found(None, {"loss": 0.5}, 2),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"val_loss" + b" " * 4000,
        b"val_loss " * 500,
        b"val_loss=" + b"1" * 4000,
        b"val_loss=1" + b",111" * 900,
        b"\x1b[" * 2000,
        b"\x1b]" * 2000,
        b"epoch " * 700,
        bytes(range(256)) * 16,
        b"\r" * 4000,
        b"best " * 800,
        b"val_loss" * 500,
        b"{" * 4000,
        b"{'val': " * 500,
        b"{'val': {'loss': 1}, " * 190,
        b"| valid " * 500,
        b"val: " * 800,
    ],
)
def test_hostile_lines_take_no_longer_than_others(data: bytes) -> None:
    reader = MetricReader(Sought("val_loss", 27))
    began = time.process_time()
    lines, _ = drawn_lines((data[:4000] + b"\n") * 65, 0, is_all=True)
    reader.found(lines)
    assert time.process_time() - began < 1.0  # for 256 KB; most take a twentieth of that
