package lock

import "testing"

func TestNext(t *testing.T) {
	t.Log("counting")
	for _, last := range []int{0, 7} {
		t.Run("after", func(t *testing.T) {
			t.Logf("after %d", last)
			if got := Next(last); got <= last {
				t.Errorf("token %d after %d", got, last)
			}
		})
	}
}

func TestWait(t *testing.T) {
	if got := Wait(); got != Spins {
		t.Errorf("%d looks", got)
	}
}
