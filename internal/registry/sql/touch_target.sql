-- registry: stamp a target whose secrets changed. No rows: it is gone.
UPDATE eventsvc.targets SET revision = @revision WHERE id = @target RETURNING id;
