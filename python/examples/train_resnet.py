"""A ResNet-18-like network on images of CIFAR's shape: mixed precision and a cosine schedule.

    python train_resnet.py [--steps 20] [--batch 32] [--device cuda]

The images are random, so that nothing has to be downloaded: it shows how a script in the usual style
is changed. Two lines are new, each beside the one that it replaces.
"""

import argparse

import torch
from torch import nn

# from torch.optim import AdamW
from maxitive.torch import UCBOptAdapt


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.short = nn.Sequential()
        if stride != 1 or inside != outside:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet(width: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    inside = width
    for stage in range(4):
        for block in range(2):
            outside = width << stage
            layers.append(Block(inside, outside, 2 if stage and not block else 1))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(0)
    images = torch.randn(4 * args.batch, 3, 32, 32)
    labels = torch.randint(10, (len(images),))
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, args.batch, shuffle=True)

    model = resnet(args.width, 10).to(args.device)
    # optimizer = AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    optimizer = UCBOptAdapt(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    half = torch.float16 if args.device == "cuda" else torch.bfloat16
    scaler = torch.amp.GradScaler(args.device, enabled=half == torch.float16)
    step = 0
    while step < args.steps:
        for x, y in loader:
            x, y = x.to(args.device), y.to(args.device)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(args.device, dtype=half):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            step += 1
            print(f"step {step}: loss {loss.item():.4f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
