"""Places that torch.where or nonzero finds of a mask, and that tensors are indexed by: as by the mask itself, in kernels."""

import torch

import inferno

X, Y = torch.arange(-30.0, 30).reshape(5, 4, 3), torch.arange(60.0).reshape(5, 4, 3).sin()


def right(model, fallback=False):
    fast = inferno.compile(model, (X.clone(), Y.clone()), target="cpu", fallback=fallback)
    for x, y in ((X, Y), (Y, X), (-X.abs() - 1, Y)):  # of the last one nothing is picked that is positive
        ours, eager = (x.clone(), y.clone()), (x.clone(), y.clone())
        for found, expected in zip((*fast(*ours), *ours), (*model(*eager), *eager), strict=True):
            torch.testing.assert_close(found, expected, equal_nan=True)
    return fast


def test_writes():
    def model(x, y):
        mask = x > 0
        mask[torch.where(mask.sum(-1) == mask.shape[-1])] = False  # attention that would see nothing sees all, as in Mask2Former
        y[mask.nonzero(as_tuple=True)] = 7
        rows = (x[:, 0, 0] > 2).nonzero().squeeze(1)
        y[rows] = x[rows].exp()
        y[:, torch.where(x[0, :, 1] > -20)[0]] = 2
        places = torch.nonzero(x[0])
        x[0, places[:, 0], places[:, 1]] = torch.tensor(3.0)
        x[tuple(torch.argwhere(y > 0.9).t())] = 11
        x.index_put_(torch.where(y < -0.9), torch.tensor(0.5), accumulate=True)
        a, b, c = mask.nonzero().unbind(1)
        x[a, b, c] = y[a, b, c] + 1
        return y.index_fill_(2, (x[0, 0] > 1).nonzero().flatten(), 5.0), mask

    right(model)


def test_sums_and_counts():
    def model(x, y):
        places = torch.where(x > 0)
        loss = (x[places] - y[places]).pow(2).sum() / (places[0].shape[0] * 2)
        rows = (x[:, 1, 1] > 0).nonzero().view(-1)
        best = x[tuple((y > 0.5).nonzero().T)].sum()
        return loss, best, x[places].mean(), y.index_select(0, rows).sum((0, 1))

    right(model)


def test_a_mask_that_changes_behind():
    def model(x, y):
        mask = x > 0
        places = torch.where(mask)
        mask.logical_not_()
        y[places] = 1
        values = x[0, 0] * 1
        nonzero = values.nonzero()[:, 0]
        values.zero_()
        y[0, 0, nonzero] = 2
        return y, mask

    right(model)


def test_places_that_are_not_all_of_a_mask():
    def model(x, y):
        rows, columns, last = torch.where(x > 0)
        y[rows, columns, 0] = 1
        x[:, 1:][torch.where(x[:, 0] > 3)[0]] = 2
        y[torch.where(y[:4, 0, 0] > 0)] = 3  # of a larger tensor
        y[:, torch.where(x[0, :, 1] > 5)[0]] *= 2
        matrix = (x[0, 0] > -100).nonzero()  # whose rows are no columns
        y[0, 0, matrix.transpose(0, 0)[0]] = 4
        x[0, 0, matrix.permute(0, 1)[2]] = 5
        return y[last.clamp(max=2), rows % 2], rows, x.index_select(-1, torch.where(y[0, 0] > 0)[0]).sum()

    right(model, fallback=True)


def test_numbers_that_results_have_as_sizes():
    def model(x, y):
        places = torch.where(x > 0)
        return x[places] * y[places], y[:, torch.where(x[0, :, 1] > -20)[0]], places[0].shape[0] * x

    right(model, fallback=True)
