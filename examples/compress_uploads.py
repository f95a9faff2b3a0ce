"""Compress what users upload: fewer bytes, shorter rounds, and other training.

`quantized` rounds every value to 8 bits at random, without bias; `top_k` uploads the largest values and adds what it
leaves out to the user's next upload. Downloads stay as they are.
"""

import fedcast

small = ["data.num_users=40", "clustering.rule=daca", "training.local_epochs=1", "training.rounds=20"]

for upload in ("full", "quantized", "top_k"):
    changes = [*small, f"training.upload={upload}", "training.top_k.share=0.05"]
    run = fedcast.train_scenario(fedcast.load_scenario(base="digits", overrides=changes))
    last, plan = run.history.records[-1], run.plan
    print(
        f"{upload:9}  upload {plan.upload_s:.4f} s of a round of {plan.round_s:.3f} s, "
        f"{last.bytes_sent / 1e6:.3f} MB sent, accuracy {last.accuracy:.3f}"
    )
