-- registry: whether a function of two jsonb is there, and whether we may become a role. One row. The catalogue is read, as asking by name needs rights in the schema.
SELECT EXISTS (
         SELECT FROM pg_proc p
         JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE n.nspname = @schema
           AND p.proname = @name
           AND p.prokind = 'f'
           AND p.pronargs = 2
           AND p.proargtypes[0] = 'jsonb'::regtype
           AND p.proargtypes[1] = 'jsonb'::regtype) AS found,
       @role::text = '' OR EXISTS (
         SELECT FROM pg_roles r
         WHERE r.rolname = @role
           AND pg_has_role(r.oid, 'MEMBER')) AS becomes;
