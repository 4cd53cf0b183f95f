package bench

import (
	"context"
	"os"
	"time"
)

// usage is the CPU that the parts of a measurement have used so far. What cannot be seen
// is below zero.
type usage struct {
	at                       time.Time
	service, bench, database time.Duration
}

const unseen = -1

func (s *stage) usage(ctx context.Context) usage {
	u := usage{at: time.Now(), service: unseen, bench: unseen, database: unseen}
	if own, _, _, ok := processCPU(os.Getpid()); ok {
		u.bench = own
	}
	if s.service != nil {
		if own, _, _, ok := processCPU(s.service.pid()); ok {
			u.service = own
		}
	}
	var backend int
	if s.db.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend) == nil {
		if postmaster, ok := postmasterOf(backend); ok {
			if used, ok := familyCPU(postmaster); ok {
				u.database = used
			}
		}
	}
	return u
}

// shares notes how many CPUs each part has kept busy since.
func (s *stage) shares(ctx context.Context, since usage, during string) {
	now := s.usage(ctx)
	wall := now.at.Sub(since.at).Seconds()
	for _, p := range []struct {
		name          string
		before, after time.Duration
	}{
		{"service", since.service, now.service}, {"bench (load and receivers)", since.bench, now.bench}, {"database", since.database, now.database},
	} {
		if p.before != unseen && p.after != unseen {
			s.figure("CPU of "+p.name+during, (p.after-p.before).Seconds()/wall, "cores")
		}
	}
}
