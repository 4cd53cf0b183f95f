-- fire: store the secret of a check as it is sealed anew.
UPDATE eventsvc.transactions SET check_secret = @sealed WHERE id = @id;
