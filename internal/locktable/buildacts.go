package locktable

// What snapshots of level 2 tell beside the records of level 1.

// Opened tells when a session was opened, of which the record did not say so; ids must rise.
func (b *Builder) Opened(id SessionID, wall int64) error {
	if b.err != nil {
		return b.err
	}
	s, ok := b.table.sessions.Get(id)
	if err := require("opening of session", Rev(id),
		rule{ok && id > b.last.opened, "no such session, or out of order"},
		rule{ok && wall > 0 && s.owner.opened == 0 && b.want.Level >= LevelActs, "when"},
	); err != nil {
		return b.fail(err)
	}
	s.owner.opened, b.last.opened = wall, id
	return nil
}

// actRule: a forced release has a lock and its token; all other acts came with a level of their own.
func (b *Builder) actRule(r *AuditRecord) rule {
	if r.Act == ActForce {
		return rule{checkName(r.Name) == "" && r.Token > 0 && r.Session == 0 && r.Node == "" && r.NodeName == "", "forced release"}
	}
	texts := r.Actor != "" && r.Reason != "" && checkText(r.Node, MaxNodeLen) == "" && checkText(r.NodeName, MaxNodeLen) == ""
	bare := r.Name == "" && r.Token == 0 && r.Wall >= 0
	ofSession := r.Session > 0 && r.Rev > Rev(r.Session) && r.Node != ""
	named := !r.Act.aboutDrains() || r.Node != ""
	known := named && r.Act <= lastAct && (r.Act == ActEnd) == ofSession && (ofSession || r.Session == 0 && !r.Now)
	return rule{known && texts && bare && b.want.Level >= LevelActs, "act"}
}
