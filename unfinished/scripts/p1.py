import sys, os, torch, torch.distributed as dist, argparse
a=argparse.ArgumentParser(); a.add_argument("--bad",type=int,default=-1); a.add_argument("--how",default="raise"); a=a.parse_args()
dist.init_process_group("gloo")
print("hello from", dist.get_rank(), __name__, __file__, sys.argv)
for i in range(5):
    if i==3 and dist.get_rank()==a.bad:
        if a.how=="raise": raise KeyError("nope")
        if a.how=="exit": sys.exit(7)
        if a.how=="kill": os.kill(os.getpid(),9)
        if a.how=="exit0": sys.exit(0)
        if a.how=="_exit": os._exit(3)
    dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
