package pg

import "time"

// TestEvery has the bell's listener test itself more often than every minute.
func (b *Bell) TestEvery(d time.Duration) { b.testEvery = d }
