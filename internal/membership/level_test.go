package membership

import "testing"

func TestCommonLevel(t *testing.T) {
	up := func(level uint32) Progress { return Progress{Reachable: true, Level: level} }
	down := func(level uint32) Progress { return Progress{Level: level} }
	voters := []Server{{ID: "a", Voter: true}, {ID: "b", Voter: true}, {ID: "c"}}
	for name, test := range map[string]struct {
		config []Server
		known  map[string]Progress
		level  uint32
		ok     bool
	}{
		"all alike":               {voters, map[string]Progress{"a": up(2), "b": up(2), "c": up(2)}, 2, true},
		"one voter older":         {voters, map[string]Progress{"a": up(3), "b": up(2), "c": up(3)}, 2, true},
		"one without a vote":      {voters, map[string]Progress{"a": up(3), "b": up(3), "c": up(1)}, 1, true},
		"the first one older":     {voters, map[string]Progress{"a": up(1), "b": up(3), "c": up(3)}, 1, true},
		"one was never measured":  {voters, map[string]Progress{"a": up(2), "b": up(2)}, 0, false},
		"one does not answer":     {voters, map[string]Progress{"a": up(2), "b": up(2), "c": down(2)}, 0, false},
		"one did not say":         {voters, map[string]Progress{"a": up(2), "b": up(2), "c": up(0)}, 0, false},
		"others do not count":     {voters[:2], map[string]Progress{"a": up(2), "b": up(2), "c": up(1)}, 2, true},
		"alone":                   {voters[:1], map[string]Progress{"a": up(2)}, 2, true},
		"no configuration so far": {nil, nil, 0, false},
	} {
		if level, ok := CommonLevel(View{Config: test.config, Progress: test.known}); level != test.level || ok != test.ok {
			t.Errorf("%s: %d %v, want %d %v", name, level, ok, test.level, test.ok)
		}
	}
}
