"""Why did a stored episode fail? One category per unsuccessful trajectory, by rules or by a model.

    trajectories.jsonl -> taxonomy.unresolved -> a judge (rules, endpoint) -> judgements.jsonl -> shares, agreement

A judgement is a record of its own and changes no trajectory. What a judge cannot say is unscored with a reason.
"""
