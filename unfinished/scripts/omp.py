import os
os.environ["OMP_NUM_THREADS"]="3"
import torch
print(torch.get_num_threads())
