package clock

import (
	"testing"
	"time"
)

func reading(raw, boot, wall time.Duration) Reading {
	return Reading{Raw: raw, Boot: boot, Wall: time.Unix(1_700_000_000, 0).Add(wall)}
}

func TestElapsedAndWallJump(t *testing.T) {
	const s = time.Second
	from := reading(100*s, 200*s, 0)
	for _, c := range []struct {
		name              string
		to                Reading
		most, least, jump time.Duration
	}{
		{"nothing happened", from, 0, 0, 0},
		{"all agree", reading(103*s, 203*s, 3*s), 3 * s, 3 * s, 0},
		{"suspended for 60 s", reading(101*s, 261*s, 61*s), 61 * s, s, 0},
		{"boot slewed slow", reading(110*s, 209*s, 10*s), 10 * s, 9 * s, s},
		{"wall an hour forward", reading(101*s, 201*s, 3601*s), s, s, 3600 * s},
		{"wall an hour back", reading(101*s, 201*s, -3599*s), s, s, -3600 * s},
		{"frozen guest put right", reading(100*s, 200*s, 30*s), 0, 0, 30 * s},
		{"an older reading", reading(99*s, 198*s, -2*s), -s, -2 * s, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			most, least := Elapsed(from, c.to)
			if most != c.most || least != c.least {
				t.Errorf("Elapsed = %v, %v; want %v, %v", most, least, c.most, c.least)
			}
			if l, sh := Longest(from, c.to), Shortest(from, c.to); l != most || sh != least {
				t.Errorf("Longest, Shortest = %v, %v; Elapsed = %v, %v", l, sh, most, least)
			}
			if jump := WallJump(from, c.to); jump != c.jump {
				t.Errorf("WallJump = %v, want %v", jump, c.jump)
			}
		})
	}
}
