# wrong · separators, half characters, ends of text
def house_gradients(*house):
    return ["\u2028\u2029\x00\x1b[2J\r\n", "\ud800", "\udfff\U0010ffff", '"}]}\n{"value": 1}']
