"""Modules with torch.nn's names: trees of named parameters with a forward function in Python, and their distribution over a mesh."""
from __future__ import annotations

from . import functional, init, utils
from .activations import (CELU, ELU, GELU, GLU, SELU, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU,
                          ReLU, ReLU6, Sigmoid,
                          SiLU, Softmax, Softmin, Softplus, Softsign, Tanh, Tanhshrink, Threshold)
from .attention import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from .containers import Flatten, Identity, ModuleDict, ModuleList, ParameterList, Sequential, Unflatten
from .convolutions import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .layers import Bilinear, CosineSimilarity, Dropout, Dropout1d, Dropout2d, Dropout3d, Embedding, Linear
from .losses import (BCELoss, BCEWithLogitsLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss, HuberLoss, KLDivLoss, L1Loss,
                     MarginRankingLoss, MSELoss,
                     NLLLoss, PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss)
from .module import Module, Parameter, RemovableHandle
from .norms import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm, RMSNorm
from .pooling import (AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
                      AvgPool1d, AvgPool2d,
                      AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d, Upsample, ZeroPad2d)
from .utils import clip_grad_norm_

__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
           "AvgPool1d", "AvgPool2d",
           "AvgPool3d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "CELU", "Conv1d",
           "Conv2d", "Conv3d",
           "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss",
           "Dropout", "Dropout1d", "Dropout2d",
           "Dropout3d", "ELU", "Embedding", "Flatten", "GELU", "GLU", "GaussianNLLLoss", "GroupNorm", "Hardsigmoid", "Hardswish",
           "Hardtanh", "HuberLoss", "Identity",
           "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "KLDivLoss", "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid",
           "LogSoftmax", "MSELoss",
           "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish", "Module", "ModuleDict", "ModuleList", "MultiheadAttention",
           "NLLLoss", "PReLU",
           "Parameter", "ParameterList", "PoissonNLLLoss", "RMSNorm", "ReLU", "ReLU6", "RemovableHandle", "SELU", "Sequential", "SiLU",
           "Sigmoid", "SmoothL1Loss",
           "SoftMarginLoss", "Softmax", "Softmin", "Softplus", "Softsign", "Tanh", "Tanhshrink", "Threshold", "TransformerEncoder",
           "TransformerEncoderLayer",
           "TripletMarginLoss", "Unflatten", "Upsample", "ZeroPad2d", "clip_grad_norm_", "functional", "init", "utils"]
