//go:build unix

package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	panelWidth  = 15 * vg.Centimeter
	barHeight   = 0.75 * vg.Centimeter
	panelFrame  = 2.6 * vg.Centimeter // title, axis and space of a panel
	barWidth    = 0.45 * vg.Centimeter
	plotColumns = 2
)

var (
	ownColor  = color.RGBA{0x1f, 0x77, 0xb4, 0xff}
	peerColor = color.RGBA{0xa8, 0xa8, 0xa8, 0xff}
)

// draw writes the medians as bars, one panel for each measure, to a file whose name ends in .png or .svg.
func (r *results) draw(file string) (err error) {
	var panels []*plot.Plot
	most := 0
	for _, b := range r.blocks {
		if len(b.lines) < 2 {
			continue
		}
		p, err := panel(b)
		if err != nil {
			return fmt.Errorf("plot %s: %w", b.measure.title, err)
		}
		panels = append(panels, p)
		most = max(most, len(b.lines))
	}
	if len(panels) == 0 {
		return fmt.Errorf("plot: nothing was measured of two systems")
	}
	rows := (len(panels) + plotColumns - 1) / plotColumns
	width, height := vg.Length(plotColumns)*panelWidth, vg.Length(rows)*(panelFrame+vg.Length(most)*barHeight)
	canvas, write := canvasFor(file, width, height)
	tiles := draw.Tiles{Rows: rows, Cols: plotColumns, PadX: vg.Millimeter * 6, PadY: vg.Millimeter * 6, PadTop: vg.Millimeter * 3, PadRight: vg.Millimeter * 8}
	for i, p := range panels {
		p.Draw(tiles.At(draw.New(canvas), i%plotColumns, i/plotColumns))
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = write.WriteTo(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func canvasFor(file string, width, height vg.Length) (vg.CanvasSizer, io.WriterTo) {
	if filepath.Ext(file) == ".svg" {
		c := vgsvg.New(width, height)
		return c, c
	}
	c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(110), vgimg.UseBackgroundColor(color.White))
	return c, vgimg.PngCanvas{Canvas: c}
}

// panel has the first line of the block on top. Where the figures are far apart the axis is logarithmic.
func panel(b *block) (*plot.Plot, error) {
	p := plot.New()
	better := "less is better"
	if b.measure.more {
		better = "more is better"
	}
	p.Title.Text = b.measure.title
	p.X.Label.Text = b.measure.unit + ", " + better
	lines := slices.Clone(b.lines)
	slices.Reverse(lines)
	var names []string
	least, most := math.Inf(1), 0.0
	labels := plotter.XYLabels{}
	for i, l := range lines {
		median := spreadOf(l.figures).Median
		names = append(names, l.who.String())
		if median > 0 {
			least = min(least, median)
		}
		most = max(most, median)
		labels.XYs = append(labels.XYs, plotter.XY{X: median, Y: float64(i)})
		labels.Labels = append(labels.Labels, " "+shown(median))
	}
	for i, l := range lines {
		c := peerColor
		if l.who.system == quorumDisk.name || l.who.system == quorumMemory.name {
			c = ownColor
		}
		bar, err := plotter.NewBarChart(plotter.Values{spreadOf(l.figures).Median}, barWidth)
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.Color, bar.LineStyle.Width, bar.XMin = true, c, 0, float64(i)
		p.Add(bar)
	}
	texts, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range texts.TextStyle {
		texts.TextStyle[i].YAlign = text.YCenter
	}
	p.Add(texts)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, max(most*1.18, 1e-9)
	p.Y.Min, p.Y.Max = -0.6, float64(len(lines))-0.4
	return p, nil
}
