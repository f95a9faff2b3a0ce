"""Ask how well the model serves each user, and how well after the user fine-tuned it on its own samples."""

import tempfile

import fedcast

changes = ["data.num_users=40", "training.rounds=30", "training.local_epochs=1", "training.fine_tune_epochs=3"]
folder = tempfile.mkdtemp()

for rule in ("none", "daca"):
    scenario = fedcast.load_scenario(base="digits", overrides=[*changes, f"clustering.rule={rule}"])
    run = fedcast.load_run(fedcast.run_scenario(scenario, folder))
    users = run.users_to_pandas()  # one row per user
    worst = users["own_accuracy"].nsmallest(4).mean()  # the worst tenth
    print(
        f"{rule}: {run.history.records[-1].accuracy:.3f} on the test set; users on their own labels "
        f"{users['own_accuracy'].mean():.3f}, worst tenth {worst:.3f}; fine-tuned "
        f"{users['fine_tuned_own_accuracy'].mean():.3f}, and {users['fine_tuned_accuracy'].mean():.3f} on the test set"
    )
