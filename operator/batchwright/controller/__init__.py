"""The operator: it drives every BatchJob from the plan to its published results.

Level-triggered. For each active BatchJob one loop runs `gather` (API → frozen `Observed`), `reconcile` (pure → `Plan`)
and `apply` (`Plan` → API). Events of the cluster only wake the loop; what it does depends on nothing but what it sees.

    watch ──wakes──▶ loop ──▶ gather ──▶ Observed ──▶ core.reconcile ──▶ Plan ──▶ apply
                      ▲                                                            │
                      └───────────────── timer, resync ◀──────────────────────────┘
"""
