// Command chance prints what a Go program leaves to chance, and what time it is. Its argument, if it has one, is how it exits.
package main

import (
	crand "crypto/rand"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		code, err := strconv.Atoi(os.Args[1])
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
	fmt.Println("args", os.Args, "environment", os.Environ())
	mapOrder()
	selectOrder()
	fmt.Println("random", rand.Int63(), crand.Text())
	_, err := os.ReadDir("/")
	fmt.Println("files", err)
	sleep(time.Hour)
}

func mapOrder() {
	m := make(map[int]bool)
	for i := range 20 {
		m[i] = true
	}
	for i := range m {
		fmt.Print(i, " ")
	}
	fmt.Println()
}

func selectOrder() {
	a, b := make(chan int, 20), make(chan int, 20)
	for range 20 {
		a <- 0
		b <- 1
	}
	for range 20 {
		select {
		case v := <-a:
			fmt.Print(v)
		case v := <-b:
			fmt.Print(v)
		}
	}
	fmt.Println()
}

func sleep(d time.Duration) {
	began := time.Now()
	time.Sleep(d)
	fmt.Println("from", began, "slept", time.Since(began))
}
