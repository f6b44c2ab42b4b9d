package membership

// CommonLevel is the highest feature level that the binaries of all servers of the configuration know, voters or not. It is not
// known as long as one of them was not measured or does not answer: whoever is away may come back with the binary that it had, or
// with an older one.
func CommonLevel(v View) (level uint32, known bool) {
	for i, s := range v.Config {
		p, measured := v.Progress[s.ID]
		if !measured || !p.Reachable || p.Level == 0 {
			return 0, false
		}
		if i == 0 || p.Level < level {
			level = p.Level
		}
	}
	return level, len(v.Config) > 0
}
