"""The task of an exported run: samples, users, batches, local training and the test. It needs PyTorch and NumPy."""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

TESTED_AT_ONCE = 2000


class Task:
    """A folder that fedcast exported: its settings (task.json), samples and users."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.settings = read_json(self.folder / "task.json")
        self.dtype = getattr(torch, self.settings["dtype"])
        # One list of sample numbers for each user, with the samples that it received.
        self.users = [np.array(held, dtype=np.int64) for held in read_json(self.folder / "partition_after.json")]
        # How much each user counts in the mean.
        self.weights = np.array(self.settings["user_weights"], dtype=np.float64)
        with np.load(self.folder / "data.npz") as arrays:
            scale = float(arrays["scale"]) if "scale" in arrays else None
            self.train = read_samples(arrays, "", scale, self.dtype)
            self.test = read_samples(arrays, "test_", scale, self.dtype)

    def initial_weights(self):
        """Return the state of the model before the first round."""
        return torch.load(self.folder / "weights_initial.pt", weights_only=True)

    def participants(self, number):
        """Return the users of a round, counted from 1."""
        listed = self.settings["participants"]
        able = [user for user, held in enumerate(self.users) if len(held)]
        users = able if listed is None else listed[number - 1]
        return users if self.weights[users].any() else []

    def batches(self, user, number):
        """Yield the samples of each local step of a user; their order is fedcast's, in every round and epoch."""
        held, settings = self.users[user], self.settings
        own = hash_words(np.uint64(user), np.arange(len(held), dtype=np.uint64))
        for epoch in range(settings["local_epochs"]):
            key = stream_key(f"{settings['seed']}/batches/{number}/{epoch}")
            order = np.argsort(hash_words(own, key) >> np.uint64(24), kind="stable")
            for start in range(0, len(held), settings["batch_size"]):
                yield torch.from_numpy(held[order[start : start + settings["batch_size"]]])

    def train_user(self, model, user, number):
        """Train the model on the samples of one user, in place, and return the mean loss of its steps."""
        settings = self.settings
        rate = settings["learning_rate"] * settings["learning_rate_decay"] ** (number - 1)
        optimizer = torch.optim.SGD(
            model.parameters(), rate, momentum=settings["momentum"], weight_decay=settings["weight_decay"]
        )
        losses = []
        for samples in self.batches(user, number):
            inputs, labels = self.train(samples)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            if settings["clip_norm"] is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    def score(self, model):
        """Return accuracy and mean loss on the test set."""
        right, loss, count = 0, 0.0, self.settings["test_samples"]
        with torch.no_grad():
            for start in range(0, count, TESTED_AT_ONCE):
                inputs, labels = self.test(torch.arange(start, min(start + TESTED_AT_ONCE, count)))
                scores = model(inputs)
                right += int((scores.argmax(1) == labels).sum())
                loss += float(F.cross_entropy(scores, labels, reduction="sum"))
        return right / count, loss / count

    def compare(self, curve, name):
        """Write the curve of (accuracy, loss) by round, and print how far it is from fedcast's."""
        rows = [f"{number},{accuracy!r},{loss!r}\n" for number, (accuracy, loss) in enumerate(curve)]
        (self.folder / name).write_text("round,accuracy,test_loss\n" + "".join(rows))
        records = read_json(self.folder / "history.json")["records"][: len(curve)]
        apart = max(abs(record["accuracy"] - found[0]) for record, found in zip(records, curve, strict=True))
        print(f"largest difference from the accuracy of fedcast in {len(records)} records: {apart:.3g}")
        print(f"wrote {self.folder / name}")


def read_json(path):
    """Return the value of a JSON file."""
    return json.loads(Path(path).read_text())


def read_samples(arrays, part, scale, dtype):
    """Return a function from sample numbers to inputs and labels."""
    labels = torch.from_numpy(arrays[f"{part}labels"].astype(np.int64))
    if f"{part}soft_labels" in arrays:  # label distributions
        labels = torch.from_numpy(arrays[f"{part}soft_labels"]).to(dtype)
    if f"{part}codes" in arrays:  # sequences of a text
        codes, starts = (torch.from_numpy(arrays[f"{part}{name}"].astype(np.int64)) for name in ("codes", "starts"))
        window = torch.arange(int(arrays[f"{part}length"]))
        return lambda samples: (codes[starts[samples][:, None] + window], labels[samples])
    inputs = torch.from_numpy(arrays[f"{part}inputs"]).to(dtype) * scale
    return lambda samples: (inputs[samples], labels[samples])


def stream_key(text):
    """Return the 64-bit key of a purpose, as fedcast.random does."""
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))


def hash_words(first, second):
    """Return a 64-bit hash of each ordered pair of whole numbers, as fedcast.random does."""
    with np.errstate(over="ignore"):
        return splitmix(splitmix(first) + second)


def splitmix(word):
    """Apply the finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    word = word + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
