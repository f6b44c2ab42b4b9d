package wal

// reader goes through the content of a segment, batch by batch.
type reader struct {
	*segment
	content []byte
	at      uint32 // the next sector
	batch   uint64 // the next batch; 0: whichever comes first
	torn    int    // sectors from at to the last one that holds a part of an unfinished batch
}

func (r *reader) sector(number uint32) []byte {
	return r.content[int(number)*sectorSize : int(number+1)*sectorSize]
}

// read hands the payload of each batch to apply, and checks what stands behind the last.
func (r *reader) read(apply func(s *segment, at uint32, payload []byte) error) error {
	for r.at < r.sectors {
		payload, parts, batch := r.next()
		if parts == 0 {
			break
		}
		if err := apply(r.segment, r.at, payload); err != nil {
			return &CorruptError{File: r.name(), Err: err}
		}
		r.at += parts
		r.batch = batch + 1
	}
	if r.batch == 0 {
		return corrupt(r.name(), "it does not begin with a batch")
	}
	return r.checkRest()
}

// next returns the batch that begins at r.at; parts is 0 if none does, or not all of it is there.
func (r *reader) next() (payload []byte, parts uint32, batch uint64) {
	begin, ok := r.open(r.at, r.sector(r.at))
	if !ok || begin.part != 0 || begin.parts > r.sectors-r.at || r.batch != 0 && begin.batch != r.batch {
		return nil, 0, 0
	}
	for part := range begin.parts {
		sector := r.sector(r.at + part)
		h, ok := r.open(r.at+part, sector)
		if !ok || h.part != part || h.parts != begin.parts || h.batch != begin.batch {
			return nil, 0, 0
		}
		payload = append(payload, sector[sectorHead:sectorHead+h.used]...)
	}
	return payload, begin.parts, begin.batch
}

// checkRest accepts zeros and the parts of one batch, the next, whose write was cut: any of its sectors may have been written. A
// batch that was synced is not cut, so whatever else stands here has been damaged.
func (r *reader) checkRest() error {
	var parts uint32
	for number := r.at; number < r.sectors; number++ {
		if isZero(r.sector(number)) {
			continue
		}
		h, ok := r.open(number, r.sector(number))
		if parts == 0 {
			parts = h.parts
		}
		if !ok || h.batch != r.batch || h.part != number-r.at || h.parts != parts || parts > r.sectors-r.at {
			return corrupt(r.name(), "sector %d is not what was written there", number)
		}
		r.torn = int(number-r.at) + 1
	}
	return nil
}
