-- registry: write a secret sealed anew.
UPDATE eventsvc.secrets SET sealed = @sealed WHERE id = @id;
