"""From one cluster to the other: rehearsed (`rehearsal`), and carried out (`states`, then `procedure`)."""
