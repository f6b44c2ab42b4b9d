package guard

func Main() {}
