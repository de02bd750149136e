"""Makes the models that the tests serve. Run by the environment's own Python, which has torch: tiny_models.py FOLDER

All are random, and the same on each run: they say nothing sensible, but everything around them is real.

- tiny: a Llama of two layers that generates, with a chat template that takes tools.
- tiny-embedding: a Llama of two layers without a head, in the form of Sentence Transformers. An embedding is the last
  token's state, 128 numbers of length 1 together; the first 32 or 64 of them can be asked for.
- tiny-lora: a LoRA adapter of rank 8 for tiny, as PEFT writes them.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel, PreTrainedTokenizerFast

VOCABULARY = 2048
POSITIONS = 2048
HIDDEN = 128
HEADS = 4
KEY_VALUE_HEADS = 2
LAYERS = 2
RANK = 8
ROLES = ("system", "user", "assistant", "tool")
SPECIAL_TOKENS = ["<s>", "</s>", "<pad>", *(f"<|{role}|>" for role in ROLES)]
TRAINING_FILES = 40
# By this list vLLM knows an embedding model, and what it makes of the tokens' states.
SENTENCE_TRANSFORMER = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
# A fresh model's choices are all but even, and then how requests share a batch decides between them: rounding differs.
# With a head so much steeper the likeliest token leads clearly.
STEEPNESS = 10
# As the templates of Hermes models: the tools first, calls and answers of tools between tags.
CHAT_TEMPLATE = """\
{%- if tools %}<|system|>You may call these tools, by <tool_call>{"name": ..., "arguments": {...}}</tool_call>:
{%- for tool in tools %} {{ tool | tojson }}{% endfor %}{% endif %}
{%- for message in messages %}<|{{ message['role'] }}|>
{%- if message['content'] %}{{ message['content'] }}{% endif %}
{%- for call in message['tool_calls'] or [] %}<tool_call>{{ call['function'] | tojson }}</tool_call>{% endfor %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


def main(folder: Path) -> None:
    """Make all models below `folder`."""
    tokenizer = make_tokenizer()
    make_generation_model(folder / "tiny", tokenizer)
    make_embedding_model(folder / "tiny-embedding", tokenizer)
    make_adapter(folder / "tiny-lora")


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer, so that no text is unknown to it, trained on Python's standard library."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:TRAINING_FILES]
    tokenizer.train([str(path) for path in texts], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=POSITIONS,
    )


def configuration(**more: object) -> LlamaConfig:
    """What both models have in common."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_VALUE_HEADS,
        max_position_embeddings=POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        **more,
    )


def make_generation_model(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make tiny."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(configuration())
    with torch.no_grad():
        model.lm_head.weight.mul_(STEEPNESS)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_embedding_model(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make tiny-embedding."""
    torch.manual_seed(1)
    shortenings = [HIDDEN // 4, HIDDEN // 2, HIDDEN]
    model = LlamaModel(configuration(is_matryoshka=True, matryoshka_dimensions=shortenings))
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json(folder / "modules.json", SENTENCE_TRANSFORMER)
    write_json(
        folder / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, "pooling_mode_lasttoken": True}
    )


def make_adapter(folder: Path) -> None:
    """Make tiny-lora: two files, which take no library to write. Strong enough to change most tokens."""
    torch.manual_seed(2)
    head = HIDDEN // HEADS
    widths = {
        "q_proj": HEADS * head,
        "k_proj": KEY_VALUE_HEADS * head,
        "v_proj": KEY_VALUE_HEADS * head,
        "o_proj": HIDDEN,
    }
    tensors = {}
    for layer in range(LAYERS):
        for name, width in widths.items():
            prefix = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{prefix}.lora_A.weight"] = torch.randn(RANK, HIDDEN, dtype=torch.bfloat16) * 0.1
            tensors[f"{prefix}.lora_B.weight"] = torch.randn(width, RANK, dtype=torch.bfloat16) * 0.1
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(widths),
    }
    write_json(folder / "adapter_config.json", settings)
    save_file(tensors, folder / "adapter_model.safetensors")


def write_json(path: Path, value: object) -> None:
    """Write a file of a model's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
