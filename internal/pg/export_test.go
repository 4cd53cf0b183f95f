package pg

import "time"

// TestEvery has the bell's listener test itself more often than every minute.
func (b *Bell) TestEvery(d time.Duration) { b.testEvery = d }

// TakeMigrationLock is a migrator's lock, which is held until its transaction ends.
var TakeMigrationLock = takeMigrationLock

// FlatArrays is what every connection of a pool has done to it.
var FlatArrays = flatArrays
