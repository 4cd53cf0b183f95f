-- ledger: pin plans to index nested loops, and bound lock waits, until the transaction ends. One row.
SELECT set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('lock_timeout', @lock_timeout, true);
