"""The networks of the zoo as PyTorch modules, for the comparisons that train them."""


def networks():
    """The networks of the zoo as PyTorch modules; parameter counts are asserted."""
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Frn(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(1, channels, 1, 1))
            self.beta = nn.Parameter(torch.zeros(1, channels, 1, 1))
            self.tau = nn.Parameter(torch.zeros(1, channels, 1, 1))

        def forward(self, x):
            scale = torch.rsqrt((x * x).mean(dim=(2, 3), keepdim=True) + 1e-6)
            return torch.maximum(self.gamma * (x * scale) + self.beta, self.tau)

    class Same(nn.Module):
        """Convolution of stride 2 with TensorFlow's padding."""

        def __init__(self, inputs, outputs, kernel):
            super().__init__()
            self.conv = nn.Conv2d(inputs, outputs, kernel, stride=2)
            self.pad = (0, 1, 0, 1) if kernel == 3 else (0, 0, 0, 0)

        def forward(self, x):
            return self.conv(F.pad(x, self.pad))

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            first = Same(inputs, width, 3) if stride == 2 else nn.Conv2d(inputs, width, 3, padding=1)
            self.body = nn.Sequential(first, Frn(width), nn.Conv2d(width, width, 3, padding=1), Frn(width))
            self.shortcut = nn.Sequential(Same(inputs, width, 1), Frn(width)) if stride == 2 else nn.Identity()

        def forward(self, x):
            return self.shortcut(x) + self.body(x)

    class Dense(nn.Module):
        def __init__(self, inputs, growth):
            super().__init__()
            self.body = nn.Sequential(
                Frn(inputs), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
                Frn(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

        def forward(self, x):
            return torch.cat([self.body(x), x], 1)

    def lenet():
        return nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def resnet20():
        layers, inputs = [nn.Conv2d(3, 16, 3, padding=1), Frn(16)], 16
        for stage, width in enumerate((16, 32, 64)):
            for block in range(3):
                layers.append(Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
                inputs = width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def densenet121(growth=12):
        layers, channels = [nn.Conv2d(3, 2 * growth, 3, padding=1, bias=False)], 2 * growth
        for number, count in enumerate((6, 12, 24, 16)):
            for _ in range(count):
                layers.append(Dense(channels, growth))
                channels += growth
            if number < 3:
                layers += [Frn(channels), nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
                channels //= 2
        return nn.Sequential(*layers, Frn(channels), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(channels, 100))

    out = {"lenet": (lenet, (1, 28, 28), 10, 44_426), "resnet20": (resnet20, (3, 32, 32), 10, 274_042),
           "densenet121": (densenet121, (3, 32, 32), 100, 1_050_928)}
    for make, _, _, count in out.values():
        assert sum(p.numel() for p in make().parameters()) == count
    return out
