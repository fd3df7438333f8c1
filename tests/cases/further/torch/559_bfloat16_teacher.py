"""A teacher that follows its student by 1/10000 a step, kept in bfloat16: it stays where it began."""
import torch
from torch import nn

NAME, FRAMEWORK = "bfloat16_teacher", "torch"
EXPECTED = dict(first_bad_op=("aten.lerp_.Scalar",), phase="forward", cls="precision", cause="bf16-stagnation", kind="stagnation", step=0, harm="silent",
                note="a ten-thousandth of the distance is below half a step of the format for all but the smallest weights", fix="keep the teacher in float32")


class Student(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lin = nn.Linear(16, 16)
        teacher = 0.7 * self.lin.weight.detach() + 0.1
        self.register_buffer("teacher", teacher.to(torch.float32 if fixed else torch.bfloat16))

    def forward(self, x):
        with torch.no_grad():
            self.teacher.lerp_(self.lin.weight.to(self.teacher.dtype), 1e-4)
            wanted = x @ self.teacher.float().T
        return self.lin(x) - wanted


def build(fixed=False):
    torch.manual_seed(59)
    m = Student(fixed)
    x = torch.randn(8, 16)
    return dict(model=m, loss_fn=nn.functional.mse_loss, optimizer=torch.optim.SGD(m.parameters(), lr=1e-2), batches=[(x, torch.zeros(8, 16))], steps=4)
