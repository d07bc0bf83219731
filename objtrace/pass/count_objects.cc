// SPDX-License-Identifier: Apache-2.0
// A plugin for clang that counts loads and stores by object (objtrace/layout.h).
//
// It runs after all of the optimiser, on the accesses that are left: what the optimiser removed the
// program does not do. A vector's elements count one each, and 8 bytes of memcpy, memmove and
// memset. Accesses in one basic block by one pointer are one object's and counted at the first of
// them, up to the next call that might free it or not return.

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "objtrace/layout.h"

namespace tmprof::objtrace {
namespace {

using llvm::Value;

constexpr std::uint64_t kWordBytes = 8;
constexpr unsigned kMaxPointerSteps = 64;
constexpr std::uint32_t kLikely = 2000;  // against 1

// Accesses that are counted together.
struct Group {
  Value* base;               // that all their addresses are made from
  llvm::Instruction* first;  // of the accesses
  Value* address;            // of that one
  std::uint64_t weight = 0;
  Value* bytes = nullptr;  // weighs instead, if it is set: known when the program runs
  // Another group of this pointer that ran before, with nothing in between that might free the
  // object: its header need not be looked for again.
  std::optional<std::size_t> leader = std::nullopt;
  bool leads = false;
  Value* count = nullptr;  // of a leader: the address of the header's count, or null
};

// That an address is made from, also where it is one of two made from the same.
Value* BaseOf(Value* address, int depth = 0) {
  constexpr int kMaxDepth = 4;
  auto* base = const_cast<Value*>(llvm::getUnderlyingObject(address, kMaxPointerSteps));
  auto* select = llvm::dyn_cast<llvm::SelectInst>(base);
  if (select == nullptr || depth == kMaxDepth) return base;
  Value* one = BaseOf(select->getTrueValue(), depth + 1);
  return one == BaseOf(select->getFalseValue(), depth + 1) ? one : base;
}

// Elements of a vector, or one.
std::uint64_t WeightOf(const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector != nullptr ? vector->getNumElements() : 1;
}

// Whether an object that is accessed before it may be gone after it, or the rest may not be
// reached.
bool IsBarrier(const llvm::Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
  if (call == nullptr || llvm::isa<llvm::IntrinsicInst>(call)) return false;
  return !(call->hasFnAttr(llvm::Attribute::NoFree) &&
           call->hasFnAttr(llvm::Attribute::WillReturn) && call->doesNotThrow());
}

class FunctionCounter;

// What all functions of a module share.
class ModuleCounter {
 public:
  explicit ModuleCounter(llvm::Module& module);

  void Run();

 private:
  friend class FunctionCounter;

  llvm::GlobalVariable* ThreadLocal(llvm::Type* type, llvm::StringRef name);
  void CollectVariables();
  void AddModuleFunctions();
  llvm::Function* CallOnModule(llvm::StringRef name, llvm::StringRef runtime_function,
                               llvm::Constant* argument);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::Type* i16_;
  llvm::Type* i32_;
  llvm::Type* i64_;
  llvm::PointerType* pointer_;
  llvm::StructType* static_object_;
  llvm::GlobalVariable* thread_;
  llvm::GlobalVariable* static_counts_;
  llvm::FunctionCallee count_;
  llvm::FunctionCallee count_static_;
  llvm::MDNode* likely_;
  llvm::DenseMap<const llvm::GlobalVariable*, unsigned> places_;  // in `objects_`
  std::vector<llvm::GlobalVariable*> variables_;
  llvm::GlobalVariable* objects_ = nullptr;
};

class FunctionCounter {
 public:
  FunctionCounter(ModuleCounter& module, llvm::Function& function)
      : module_(module), function_(function) {}

  void Run();

 private:
  void Collect(llvm::BasicBlock& block);
  void Access(llvm::Instruction& instruction, Value* address, std::uint64_t weight);
  void AccessBytes(llvm::Instruction& instruction, Value* address, Value* bytes);
  void Emit(Group& group);
  void EmitStatic(llvm::IRBuilder<>& builder, llvm::Instruction* before, Value* id, Value* weight);
  void EmitDynamic(Group& group, llvm::Instruction* before, Value* weight);
  void EmitFollower(const Group& group, llvm::Instruction* before, Value* weight);
  Value* StaticId(llvm::IRBuilder<>& builder, const Value* base);
  void AddTo(llvm::IRBuilder<>& builder, Value* word, Value* weight);

  ModuleCounter& module_;
  llvm::Function& function_;
  std::vector<Group> groups_;
  // Groups whose object is still there, those of the block that may still grow among them.
  std::vector<std::size_t> open_;
  llvm::DenseMap<const llvm::BasicBlock*, std::vector<std::size_t>> open_at_end_;
};

// Marks what this pass inserts, for tools that come after it.
template <typename T>
T* NoSanitize(T* instruction) {
  instruction->setNoSanitizeMetadata();
  return instruction;
}

ModuleCounter::ModuleCounter(llvm::Module& module)
    : module_(module),
      context_(module.getContext()),
      i16_(llvm::Type::getInt16Ty(context_)),
      i32_(llvm::Type::getInt32Ty(context_)),
      i64_(llvm::Type::getInt64Ty(context_)),
      pointer_(llvm::PointerType::getUnqual(context_)),
      static_object_(llvm::StructType::get(pointer_, i64_, pointer_, i64_)),
      thread_(ThreadLocal(i32_, "tmprof_thread")),
      static_counts_(ThreadLocal(pointer_, "tmprof_static_counts")),
      count_(module.getOrInsertFunction("tmprof_count", llvm::Type::getVoidTy(context_), pointer_,
                                        i64_)),
      count_static_(module.getOrInsertFunction("tmprof_count_static",
                                               llvm::Type::getVoidTy(context_), i64_, i64_)),
      likely_(llvm::MDBuilder(context_).createBranchWeights(kLikely, 1)) {
  for (llvm::FunctionCallee callee : {count_, count_static_}) {
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  }
}

llvm::GlobalVariable* ModuleCounter::ThreadLocal(llvm::Type* type, llvm::StringRef name) {
  return new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                  name, nullptr, llvm::GlobalValue::InitialExecTLSModel);
}

// Also those of other modules that this one uses: several then have the variable, and counts add
// up.
void ModuleCounter::CollectVariables() {
  for (llvm::GlobalVariable& variable : module_.globals()) {
    const bool is_ours = &variable == thread_ || &variable == static_counts_;
    // The linker may drop a copy that is local to a group, but not what refers to it.
    const bool may_be_dropped = variable.hasComdat() && variable.hasLocalLinkage();
    if (is_ours || may_be_dropped || variable.isThreadLocal() || !variable.hasName() ||
        variable.getName().starts_with("llvm.") || variable.hasExternalWeakLinkage() ||
        variable.hasAvailableExternallyLinkage() || variable.hasAppendingLinkage() ||
        variable.getAddressSpace() != 0 || !variable.getValueType()->isSized()) {
      continue;
    }
    places_[&variable] = static_cast<unsigned>(variables_.size());
    variables_.push_back(&variable);
  }
  auto* type = llvm::ArrayType::get(static_object_, variables_.size());
  objects_ = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::InternalLinkage,
                                      llvm::ConstantAggregateZero::get(type), "tmprof.objects");
}

llvm::Function* ModuleCounter::CallOnModule(llvm::StringRef name, llvm::StringRef runtime_function,
                                            llvm::Constant* argument) {
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_), false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module_);
  function->setDoesNotThrow();
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context_, "", function));
  builder.CreateCall(module_.getOrInsertFunction(runtime_function, builder.getVoidTy(), pointer_),
                     argument);
  builder.CreateRetVoid();
  return function;
}

void ModuleCounter::AddModuleFunctions() {
  llvm::IRBuilder<> builder(context_);
  const llvm::DataLayout& layout = module_.getDataLayout();
  std::vector<llvm::Constant*> objects;
  for (llvm::GlobalVariable* variable : variables_) {
    auto* text = llvm::ConstantDataArray::getString(context_, variable->getName());
    auto* name = new llvm::GlobalVariable(module_, text->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, text);
    name->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    objects.push_back(llvm::ConstantStruct::get(
        static_object_,
        {variable,
         builder.getInt64(layout.getTypeAllocSize(variable->getValueType()).getFixedValue()), name,
         builder.getInt64(kElsewhereId)}));
  }
  objects_->setInitializer(
      llvm::ConstantArray::get(llvm::cast<llvm::ArrayType>(objects_->getValueType()), objects));

  auto* type = llvm::StructType::get(i32_, i32_, pointer_);
  auto* module = new llvm::GlobalVariable(
      module_, type, false, llvm::GlobalValue::InternalLinkage,
      llvm::ConstantStruct::get(
          type, {builder.getInt32(kLayoutVersion),
                 builder.getInt32(static_cast<std::uint32_t>(objects.size())), objects_}),
      "tmprof.module");
  // Before the program's own constructors, after its destructors.
  constexpr int kPriority = 1;
  llvm::appendToGlobalCtors(module_, CallOnModule("tmprof.attach", "tmprof_attach", module),
                            kPriority);
  llvm::appendToGlobalDtors(module_, CallOnModule("tmprof.detach", "tmprof_detach", module),
                            kPriority);
}

void ModuleCounter::Run() {
  CollectVariables();
  std::vector<llvm::Function*> functions;
  for (llvm::Function& function : module_) {
    if (function.isDeclaration() || function.hasAvailableExternallyLinkage() ||
        function.hasFnAttribute(llvm::Attribute::Naked) ||
        function.hasFnAttribute(llvm::Attribute::DisableSanitizerInstrumentation)) {
      continue;
    }
    functions.push_back(&function);
  }
  for (llvm::Function* function : functions) {
    // By which the runtime finds who allocates.
    function->addFnAttr("frame-pointer", "all");
    FunctionCounter(*this, *function).Run();
  }
  AddModuleFunctions();
}

void FunctionCounter::Run() {
  for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal(&function_)) Collect(*block);
  for (Group& group : groups_) Emit(group);
}

void FunctionCounter::Access(llvm::Instruction& instruction, Value* address, std::uint64_t weight) {
  if (address->getType()->getPointerAddressSpace() != 0 || address->isSwiftError()) return;
  Value* base = BaseOf(address);
  std::optional<std::size_t> leader;
  for (const std::size_t open : open_) {
    Group& group = groups_[open];
    if (group.base != base) continue;
    if (group.first->getParent() == instruction.getParent()) {
      group.weight += weight;
      return;
    }
    if (!group.leader) leader = open;
  }
  if (leader) groups_[*leader].leads = true;
  open_.push_back(groups_.size());
  groups_.push_back({.base = base,
                     .first = &instruction,
                     .address = address,
                     .weight = weight,
                     .leader = leader});
}

void FunctionCounter::AccessBytes(llvm::Instruction& instruction, Value* address, Value* bytes) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(bytes)) {
    const std::uint64_t words = (known->getZExtValue() + kWordBytes - 1) / kWordBytes;
    if (words > 0) Access(instruction, address, words);
    return;
  }
  if (address->getType()->getPointerAddressSpace() != 0) return;
  groups_.push_back(
      {.base = BaseOf(address), .first = &instruction, .address = address, .bytes = bytes});
}

void FunctionCounter::Collect(llvm::BasicBlock& block) {
  // What was open where the only way here comes from. A loop's first block has two ways.
  const llvm::BasicBlock* before = block.getSinglePredecessor();
  open_ = before != nullptr ? open_at_end_[before] : std::vector<std::size_t>();
  for (llvm::Instruction& instruction : block) {
    if (instruction.hasMetadata(llvm::LLVMContext::MD_nosanitize)) continue;
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
      Access(instruction, load->getPointerOperand(), WeightOf(load->getType()));
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
      Access(instruction, store->getPointerOperand(),
             WeightOf(store->getValueOperand()->getType()));
    } else if (auto* update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) {
      Access(instruction, update->getPointerOperand(), 1);
    } else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) {
      Access(instruction, exchange->getPointerOperand(), 1);
    } else if (auto* memory = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction)) {
      AccessBytes(instruction, memory->getRawDest(), memory->getLength());
      if (auto* transfer = llvm::dyn_cast<llvm::MemTransferInst>(memory)) {
        AccessBytes(instruction, transfer->getRawSource(), transfer->getLength());
      }
    } else if (IsBarrier(instruction)) {
      open_.clear();
    }
  }
  open_at_end_[&block] = open_;
}

Value* FunctionCounter::StaticId(llvm::IRBuilder<>& builder, const Value* base) {
  if (llvm::isa<llvm::AllocaInst>(base)) return builder.getInt64(kOwnStackId);
  const auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(base);
  if (variable == nullptr) return nullptr;
  const auto place = module_.places_.find(variable);
  if (place == module_.places_.end()) return builder.getInt64(kElsewhereId);
  constexpr unsigned kIdField = 3;
  Value* id = builder.CreateConstInBoundsGEP2_32(module_.static_object_, module_.objects_,
                                                 place->second, kIdField);
  return NoSanitize(builder.CreateLoad(module_.i64_, id));
}

void FunctionCounter::AddTo(llvm::IRBuilder<>& builder, Value* word, Value* weight) {
  Value* sum = builder.CreateAdd(NoSanitize(builder.CreateLoad(module_.i64_, word)), weight);
  NoSanitize(builder.CreateStore(sum, word));
}

void FunctionCounter::EmitStatic(llvm::IRBuilder<>& builder, llvm::Instruction* before, Value* id,
                                 Value* weight) {
  Value* counts = NoSanitize(builder.CreateLoad(
      module_.pointer_, builder.CreateThreadLocalAddress(module_.static_counts_)));
  llvm::Instruction* counted = nullptr;
  llvm::Instruction* slow = nullptr;
  llvm::SplitBlockAndInsertIfThenElse(builder.CreateIsNotNull(counts), before, &counted, &slow,
                                      module_.likely_);
  llvm::IRBuilder<> fast_builder(counted);
  AddTo(fast_builder, fast_builder.CreateInBoundsGEP(module_.i64_, counts, id), weight);
  llvm::IRBuilder<>(slow).CreateCall(module_.count_static_, {id, weight});
}

// The formula of objtrace/layout.h.
void FunctionCounter::EmitDynamic(Group& group, llvm::Instruction* before, Value* weight) {
  Value* address = group.address;
  llvm::BasicBlock* head = before->getParent();
  llvm::BasicBlock* done = llvm::SplitBlock(head, before);
  llvm::LLVMContext& context = module_.context_;
  llvm::BasicBlock* within = llvm::BasicBlock::Create(context, "", &function_, done);
  llvm::BasicBlock* hit = llvm::BasicBlock::Create(context, "", &function_, done);
  llvm::BasicBlock* slow = llvm::BasicBlock::Create(context, "", &function_, done);

  head->getTerminator()->eraseFromParent();
  llvm::IRBuilder<> builder(head);
  Value* number = builder.CreatePtrToInt(address, module_.i64_);
  Value* offset = builder.CreateSub(number, builder.getInt64(kHeapStart));
  builder.CreateCondBr(builder.CreateICmpULT(offset, builder.getInt64(kHeapBytes)), within, slow,
                       module_.likely_);

  builder.SetInsertPoint(within);
  Value* entry = builder.CreateIntToPtr(
      builder.CreateAdd(builder.CreateShl(builder.CreateLShr(offset, kSpanShift), 4),
                        builder.getInt64(kTableStart)),
      module_.pointer_);
  static_assert(sizeof(SpanEntry) == 1 << 4);
  const auto field = [&](std::size_t at, llvm::Type* type) {
    return NoSanitize(builder.CreateLoad(
        type, builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), entry, at)));
  };
  Value* owner = field(offsetof(SpanEntry, owner), module_.i16_);
  Value* self =
      builder.CreateTrunc(NoSanitize(builder.CreateLoad(
                              module_.i32_, builder.CreateThreadLocalAddress(module_.thread_))),
                          module_.i16_);
  builder.CreateCondBr(builder.CreateICmpEQ(owner, self), hit, slow, module_.likely_);

  builder.SetInsertPoint(hit);
  Value* origin = field(offsetof(SpanEntry, origin), module_.i64_);
  Value* reciprocal =
      builder.CreateZExt(field(offsetof(SpanEntry, reciprocal), module_.i32_), module_.i64_);
  Value* units =
      builder.CreateZExt(field(offsetof(SpanEntry, slot_units), module_.i16_), module_.i64_);
  Value* index =
      builder.CreateLShr(builder.CreateMul(builder.CreateSub(number, origin), reciprocal), 32);
  Value* header = builder.CreateAdd(
      origin, builder.CreateMul(builder.CreateMul(index, units), builder.getInt64(kSlotUnitBytes)));
  Value* count = builder.CreateIntToPtr(
      builder.CreateAdd(header, builder.getInt64(offsetof(Header, count))), module_.pointer_);
  AddTo(builder, count, weight);
  builder.CreateBr(done);

  builder.SetInsertPoint(slow);
  builder.CreateCall(module_.count_, {address, weight});
  builder.CreateBr(done);

  if (!group.leads) return;
  builder.SetInsertPoint(done, done->begin());
  llvm::PHINode* found = builder.CreatePHI(module_.pointer_, 2);
  found->addIncoming(count, hit);
  found->addIncoming(llvm::ConstantPointerNull::get(module_.pointer_), slow);
  group.count = found;
}

void FunctionCounter::EmitFollower(const Group& group, llvm::Instruction* before, Value* weight) {
  llvm::IRBuilder<> builder(before);
  Value* count = groups_[*group.leader].count;
  llvm::Instruction* found = nullptr;
  llvm::Instruction* slow = nullptr;
  llvm::SplitBlockAndInsertIfThenElse(builder.CreateIsNotNull(count), before, &found, &slow,
                                      module_.likely_);
  llvm::IRBuilder<> found_builder(found);
  AddTo(found_builder, count, weight);
  llvm::IRBuilder<>(slow).CreateCall(module_.count_, {group.address, weight});
}

void FunctionCounter::Emit(Group& group) {
  llvm::Instruction* before = group.first;
  llvm::IRBuilder<> builder(before);
  Value* weight = builder.getInt64(group.weight);
  if (group.bytes != nullptr) {
    Value* bytes = builder.CreateZExtOrTrunc(group.bytes, module_.i64_);
    weight = builder.CreateLShr(builder.CreateAdd(bytes, builder.getInt64(kWordBytes - 1)), 3);
    // An empty one may have any address.
    before = llvm::SplitBlockAndInsertIfThen(builder.CreateICmpNE(weight, builder.getInt64(0)),
                                             before->getIterator(), false);
    builder.SetInsertPoint(before);
  }
  if (Value* id = StaticId(builder, group.base)) {
    EmitStatic(builder, before, id, weight);
  } else if (group.leader) {
    EmitFollower(group, before, weight);
  } else {
    EmitDynamic(group, before, weight);
  }
}

class CountObjects : public llvm::PassInfoMixin<CountObjects> {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): LLVM's name
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    ModuleCounter(module).Run();
    return llvm::PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }  // NOLINT(readability-identifier-naming): at -O0, too
};

}  // namespace
}  // namespace tmprof::objtrace

extern "C" LLVM_ATTRIBUTE_WEAK llvm::PassPluginLibraryInfo
llvmGetPassPluginInfo() {  // NOLINT(readability-identifier-naming): LLVM's name
  return {LLVM_PLUGIN_API_VERSION, "tmprof-count-objects", LLVM_VERSION_STRING,
          [](llvm::PassBuilder& builder) {
            builder.registerOptimizerLastEPCallback(
                [](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
                  passes.addPass(tmprof::objtrace::CountObjects());
                });
          }};
}
