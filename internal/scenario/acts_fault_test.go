package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S113 for the acts: without a majority, of two one and of three two gone for good, none pretends success. Each ends with its ctx, says how many voters answer, and a member names the
// recovery; what is shown by Local and by Members goes on, from the member and from a caller that starts only now.
func TestActsWithoutAMajority(t *testing.T) {
	for size := 2; size <= 3; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, size)
				time.Sleep(3 * time.Second)
				lockIn(t, c.Node(0), "held", grantBound)
				if err := c.Node(0).TransferLeadership(t.Context(), "", transferOpt); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				for i := 1; i < size; i++ {
					c.Crash(i)
				}
				time.Sleep(2 * time.Minute)
				tool := openCaller(t, c, nil)
				for _, n := range []*quorumlock.Node{c.Node(0), tool} {
					if err := errors.Join(n.EndSession(boundedBy(t, 3*time.Second), 1, endOpt)); !errors.Is(err, quorumlock.ErrNoQuorum) {
						t.Errorf("end session: %v", err)
					}
					for what, err := range map[string]error{
						"transfer": n.TransferLeadership(boundedBy(t, 3*time.Second), c.Node(0).ID(), transferOpt),
						"remove":   n.RemoveMember(boundedBy(t, 3*time.Second), "somebody", removeOpt),
					} {
						if !errors.Is(err, quorumlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, quorumlock.ErrRefused) ||
							!strings.Contains(err.Error(), fmt.Sprintf("1 of %d voters answer", size)) || n != tool && !strings.Contains(err.Error(), "Recover") {
							t.Errorf("%s: %v", what, err)
						}
						t.Log(err)
					}
					began := time.Now()
					if rec := auditOf(t, n, quorumlock.Local()); len(rec) != 1 || rec[0].Act != quorumlock.ActTransfer || !rec[0].Local || rec[0].Age < time.Minute {
						t.Errorf("audit: %+v", rec)
					}
					if list := sessionsOf(t, n, quorumlock.Local()); len(list) != 1 || list[0].Holding != 1 || !list[0].Local {
						t.Errorf("sessions: %+v", list)
					}
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("took %v", took)
					}
					s, err := n.Status(boundedBy(t, 2*time.Second))
					if err != nil || s.ServerID != c.Node(0).ID() || s.LeaderID != "" || s.Leads || !s.Voter || s.Age < time.Minute || s.Self != (n != tool) || s.Level != 2 {
						t.Errorf("status: %+v, %v", s, err)
					}
					members, err := n.Members(boundedBy(t, 2*time.Second))
					reachable := 0
					for _, m := range members {
						if m.Voter && m.Reachable {
							reachable++
						}
					}
					if err != nil || len(members) != size || reachable != 1 {
						t.Errorf("members: %+v, %v", members, err)
					}
				}
			})
		})
	}
}

// boundedBy is a context that ends with the test at the latest.
func boundedBy(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// How a node sees itself and its cluster: a leader, a follower, and for a client whoever answers it.
func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		tool := openCaller(t, c, nil)
		time.Sleep(5 * time.Second)
		lead := c.Leader()
		for i := range 3 {
			s := statusOf(t, c.Node(i))
			if !s.Self || s.ServerID != c.Node(i).ID() || s.Name != nodeName(i) || s.Leads != (i == lead) || !s.Voter || !s.InGroup || s.LeaderID != c.Node(lead).ID() ||
				s.LeaderName != nodeName(lead) || s.Term == 0 || s.Applied == 0 || s.Last < s.Applied || s.Level != 2 || s.Binary != 2 || s.Cluster != "test" ||
				s.ClusterID != c.Node(i).ClusterID() || s.Age > time.Second || s.Failed != nil || s.Addr != c.Node(i).Addr() {
				t.Errorf("%d: %+v", i, s)
			}
		}
		if s := statusOf(t, tool); s.Self || !s.Leads || s.ServerID != c.Node(lead).ID() || s.Addr != c.Node(lead).Addr() || s.Level != 2 || s.Age > time.Second {
			t.Errorf("of a caller: %+v", s)
		}
	})
}

// Acts of all kinds, at random, under crashes and cuts, beside traffic on one lock: holds never overlap (I3), tokens rise (I2), each act that was done is recorded, and in the end all members
// have one state and the lock is to be had.
func TestActsUnderFaults(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 5, quorumlocktest.Seed(seed), quorumlocktest.HashEvery(8), quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = 5 }))
				time.Sleep(10 * time.Second)
				tool := openCaller(t, c, nil)
				tr := newTraffic(t, "k")
				for i := range 3 {
					tr.from(c.Node(i))
				}
				tr.from(tool)
				m := &meddler{t: t, c: c, tool: tool, rng: rand.New(rand.NewPCG(seed, 1)), done: map[quorumlock.Act]int{}, stuck: newTraffic(t, "stuck")}
				for range 36 {
					m.fault()
					time.Sleep(time.Duration(m.rng.IntN(3000)) * time.Millisecond)
					m.act()
				}
				m.mend()
				tr.flows(5, time.Minute)
				tr.stop()
				for _, a := range []quorumlock.Act{quorumlock.ActForceRelease, quorumlock.ActEndSession, quorumlock.ActTransfer} {
					recorded := 0
					for _, r := range auditOf(t, tool) {
						if r.Act == a {
							recorded++
						}
					}
					if m.done[a] == 0 || recorded < m.done[a] {
						t.Errorf("%v: %d recorded, %d done", a, recorded, m.done[a])
					}
				}
				if m.done[quorumlock.ActDrain] == 0 || !strings.Contains(acted(t, tool), quorumlock.ActDrain.String()) { // drained twice is recorded once
					t.Error("nothing was drained")
				}
				t.Logf("%v done, %d grants", m.done, tr.count())
				time.Sleep(20 * time.Second)
				c.CheckState()
			})
		})
	}
}

// meddler is an operator in a bad hour. Instances 3 and 4 crash, all are cut off, and the tool acts.
type meddler struct {
	t    *testing.T
	c    *quorumlocktest.Cluster
	tool *quorumlock.Node
	rng  *rand.Rand
	down [5]bool
	done map[quorumlock.Act]int
	turn bool // to end the session, else to release the lock
	// stuck looks at the holds of a lock that nobody unlocks.
	stuck *traffic
	// drained is the server id of the member that is, or may be, drained.
	drained string
}

func (m *meddler) fault() {
	i := 3 + m.rng.IntN(2)
	switch m.rng.IntN(6) {
	case 0:
		if !m.down[i] {
			m.c.Crash(i)
			m.down[i] = true
		}
	case 1:
		m.c.Isolate(m.rng.IntN(5))
	case 2:
		m.c.Heal()
	default:
		m.mend()
	}
}

func (m *meddler) mend() {
	m.c.Heal()
	for i := range m.down {
		if m.down[i] {
			m.c.Start(i)
			m.down[i] = false
		}
	}
}

// act may be refused, or get no answer in time; it counts if it was done.
func (m *meddler) act() {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
	defer cancel()
	act, err := m.try(ctx)
	if err == nil {
		m.done[act]++
	}
}

func (m *meddler) try(ctx context.Context) (quorumlock.Act, error) {
	var info quorumlock.LockInfo
	for end := time.Now().Add(2 * time.Second); len(info.Holders) == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		info, _ = m.tool.Inspect(ctx, "k")
	}
	// What drains already is not recorded again.
	if len(info.Holders) == 0 || info.Holders[0].Draining || info.Holders[0].Barred || m.rng.IntN(2) == 0 {
		if m.rng.IntN(4) == 0 && (m.down[3] || m.down[4]) {
			for i := 3; i < 5; i++ {
				if m.down[i] {
					return quorumlock.ActRemove, m.tool.RemoveMember(ctx, m.idOf(i), removeOpt)
				}
			}
		}
		if m.rng.IntN(3) == 0 {
			return quorumlock.ActDrain, m.drain(ctx)
		}
		to := ""
		if i := m.rng.IntN(5); !m.down[i] {
			to = m.c.Node(i).ID()
		}
		before := len(m.transfers(ctx))
		err := m.tool.TransferLeadership(ctx, to, transferOpt)
		if err == nil && len(m.transfers(ctx)) == before {
			err = errors.New("it led already")
		}
		return quorumlock.ActTransfer, err
	}
	h := info.Holders[0]
	if m.turn = !m.turn; m.turn {
		err := m.tool.EndSession(ctx, h.Session, endOpt)
		return quorumlock.ActEndSession, err
	}
	return quorumlock.ActForceRelease, m.release(ctx)
}

// release takes a lock by force from one that never gives it back by itself, as soon as the one before has lost it.
func (m *meddler) release(ctx context.Context) error {
	h, err := quorumlock.NewMutex(m.c.Node(m.rng.IntN(3)), m.stuck.name).Lock(ctx)
	if err != nil {
		return err
	}
	m.stuck.enter(h)
	return m.tool.ForceRelease(ctx, h.Name(), h.Token(), quorumlock.ForceOptions{Actor: "ops", Reason: "stuck"})
}

// drain drains an instance, or ends that of the one that is drained.
func (m *meddler) drain(ctx context.Context) error {
	if id := m.drained; id != "" {
		m.drained = ""
		return m.tool.Undrain(ctx, id, drainOpt)
	}
	m.drained = m.c.Node(m.rng.IntN(3)).ID() // those do not crash
	return m.tool.Drain(ctx, m.drained, drainOpt)
}

func (m *meddler) transfers(ctx context.Context) (list []quorumlock.AuditRecord) {
	for r, err := range m.tool.Audit(ctx) {
		if err == nil && r.Act == quorumlock.ActTransfer {
			list = append(list, r)
		}
	}
	return list
}

// idOf is the server id of an instance that is down, as the others know it.
func (m *meddler) idOf(i int) string {
	for _, in := range groupOf(m.t, m.c.Node(0)) {
		if in.Name == nodeName(i) {
			return in.ServerID
		}
	}
	return "gone already"
}
