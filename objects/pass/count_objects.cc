// SPDX-License-Identifier: Apache-2.0
// A plugin for clang that counts loads and stores by object (objects/layout.h).
//
// It runs after all of the optimiser and counts the accesses that are left, because the program
// does not do the removed ones. A vector's elements count one each (those that a mask lets
// through), and so do each 8 bytes of memcpy, memmove and memset. Accesses by one pointer belong to
// one object. They are counted together:
//  - in a loop that calls nothing, if the loop does not change the pointer: they are summed up in a
//  register, and counted at the exits of the loop;
//  - else in one basic block, up to the next call that might free the object or not return: they
//  are counted at the first of them. Blocks that follow use the header that this block found.

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "objects/layout.h"

namespace tmprof::objtrace {
namespace {

using llvm::Value;

constexpr std::uint64_t kWordBytes = 8;
constexpr unsigned kMaxPointerSteps = 64;
constexpr std::uint32_t kLikely = 2000;  // against 1

// Accesses that are counted together.
struct Group {
  Value* base;               // all their addresses are made from it
  llvm::Instruction* first;  // the first access
  Value* address;            // its address
  std::uint64_t weight = 0;
  Value* late_weight = nullptr;      // replaces `weight` if it is set: known at run time, may be 0
  const llvm::Loop* loop = nullptr;  // the loop that it is summed up in
  const llvm::Loop* quiet_loop = nullptr;  // see QuietLoop()
  // An earlier group of this pointer, if nothing between the two might free the object. Its header
  // need not be found again.
  std::optional<std::size_t> leader = std::nullopt;
  // Used if control flow meets and the pointer is a PHI: the leaders of its incoming values, in
  // order.
  std::vector<std::optional<std::size_t>> incoming_leaders = {};
  // Accesses that its incoming leaders leave to this group, which runs next if the loop goes on.
  std::uint64_t left_to_it = 0;
  bool leaves_accesses = false;  // it is such a leader, and counts only if control goes elsewhere
  bool leads = false;
  Value* header = nullptr;                   // only for a leader: the object's header, or null
  llvm::PHINode* incoming_header = nullptr;  // the header of its incoming leaders
};

// Accesses of a loop by one pointer, in variables that become registers.
struct Sum {
  llvm::AllocaInst* accesses;
  llvm::AllocaInst* address;  // address of one of them
};

// An exit of a loop: a terminator and the number of its successor.
using Edge = std::pair<llvm::Instruction*, unsigned>;

// Returns the value that an address is made from. If the address is one of two that are made from
// one value, it is that value.
Value* BaseOf(Value* address, int depth = 0) {
  constexpr int kMaxDepth = 4;
  auto* base = const_cast<Value*>(llvm::getUnderlyingObject(address, kMaxPointerSteps));
  auto* select = llvm::dyn_cast<llvm::SelectInst>(base);
  if (select == nullptr || depth == kMaxDepth) return base;
  Value* one = BaseOf(select->getTrueValue(), depth + 1);
  return one == BaseOf(select->getFalseValue(), depth + 1) ? one : base;
}

// Returns the number of elements of a vector; 1 for other types.
std::uint64_t WeightOf(const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector != nullptr ? vector->getNumElements() : 1;
}

// True if an object accessed before the instruction may be gone after it, or if later instructions
// may not be reached.
bool IsBarrier(const llvm::Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
  if (call == nullptr || llvm::isa<llvm::IntrinsicInst>(call)) return false;
  return !(call->hasFnAttr(llvm::Attribute::NoFree) &&
           call->hasFnAttr(llvm::Attribute::WillReturn) && call->doesNotThrow());
}

// True if the instruction may tell other threads that earlier work is done, for instance that an
// object is theirs to free. That takes a release, which no load is.
bool Synchronises(const llvm::Instruction& instruction) {
  if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
      call != nullptr && !llvm::isa<llvm::AnyMemIntrinsic>(call)) {
    return !call->hasFnAttr(llvm::Attribute::NoSync) && call->mayWriteToMemory();
  }
  if (llvm::isa<llvm::LoadInst>(instruction)) return false;
  if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
    return llvm::isStrongerThanMonotonic(store->getOrdering());
  }
  return instruction.isAtomic();
}

// True if the instruction asks repeatedly for another thread's answer. Such a loop may run until
// the program ends, and others would wait for its counts.
bool Polls(const llvm::Instruction& instruction, const llvm::Loop& loop) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
  if (load == nullptr || !(load->isAtomic() || load->isVolatile())) return false;
  // A pointer that the loop reads repeatedly from one place usually has one value.
  constexpr int kMaxPointers = 8;
  for (int pointers = 0; load != nullptr && pointers < kMaxPointers; ++pointers) {
    const Value* from = load->getPointerOperand()->stripInBoundsConstantOffsets();
    if (loop.isLoopInvariant(from)) return true;
    load = llvm::dyn_cast<llvm::LoadInst>(from);
  }
  return false;
}

// True if an instruction from `first` on synchronises, up to the end of its block or to `end` in
// it.
bool AnySynchronises(const llvm::Instruction& first, const llvm::Instruction* end) {
  for (const llvm::Instruction* at = &first; at != end; at = at->getNextNode()) {
    if (Synchronises(*at)) return true;
  }
  return false;
}

class FunctionCounter;

// State of a module that all its functions share.
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
  llvm::Type* i32_;
  llvm::Type* i64_;
  llvm::PointerType* pointer_;
  llvm::StructType* static_object_;
  llvm::GlobalVariable* thread_;
  llvm::GlobalVariable* static_counts_;
  llvm::FunctionCallee count_;
  llvm::FunctionCallee count_static_;
  llvm::InlineAsm* add_;
  llvm::MDNode* likely_;
  llvm::DenseMap<const llvm::GlobalVariable*, unsigned> places_;  // index in `objects_`
  std::vector<llvm::GlobalVariable*> variables_;
  llvm::GlobalVariable* objects_ = nullptr;
};

class FunctionCounter {
 public:
  FunctionCounter(ModuleCounter& module, llvm::Function& function)
      : module_(module), function_(function), dominators_(function), loops_(dominators_) {}

  void Run();

 private:
  void Collect(llvm::BasicBlock& block);
  void Access(llvm::Instruction& instruction, Value* address, std::uint64_t weight);
  void AccessLate(llvm::Instruction& instruction, Value* address, Value* weight);
  void AccessBytes(llvm::Instruction& instruction, Value* address, Value* bytes);
  bool AccessIntrinsic(llvm::IntrinsicInst& intrinsic);
  void AccessMasked(llvm::IntrinsicInst& intrinsic, Value* address, Value* mask,
                    const llvm::Type* in_place);
  void AccessLanes(llvm::IntrinsicInst& intrinsic, Value* addresses, Value* mask);

  // Returns the outermost loop around a block that does nothing but compute and access memory; null
  // if there is none.
  const llvm::Loop* QuietLoop(const llvm::BasicBlock& block);
  bool IsQuiet(const llvm::Loop& loop);
  const llvm::Loop* LoopToSumIn(const llvm::Instruction& instruction, const Value* base);
  void FindIncomingLeaders(Group& group);
  void LeaveAccesses(Group& group);

  void Prepare(Group& group);
  void Emit(Group& group);
  void AddToSum(const Group& group, llvm::IRBuilder<>& builder, Value* weight);
  void EmitStatic(llvm::IRBuilder<>& builder, llvm::Instruction* before, Value* id, Value* weight);
  // Returns the header, or null. Counts there, unless `slow_alone` leaves it to the slow way.
  Value* EmitDynamic(llvm::Instruction* before, Value* address, Value* weight, Value* thread,
                     bool slow_alone);
  void EmitFollower(Group& group, llvm::Instruction* before, Value* weight);
  void EmitSums();
  void EmitLeft();
  llvm::Instruction* SplitExit(const Edge& edge);
  void CompleteIncoming(Group& group);
  Value* StaticId(llvm::IRBuilder<>& builder, const Value* base);
  Value* ThreadNumber(llvm::IRBuilder<>& builder);
  Value* ThreadNumberIn(llvm::IRBuilder<>& builder, const llvm::Loop* loop);
  void AddTo(llvm::IRBuilder<>& builder, Value* word, Value* weight);
  void AddToCount(llvm::IRBuilder<>& builder, Value* header, Value* weight);
  llvm::AllocaInst* NewVariable(llvm::Type* type);
  template <typename Store>
  void BeforeLoop(const llvm::Loop& loop, Store store);

  ModuleCounter& module_;
  llvm::Function& function_;
  llvm::DominatorTree dominators_;  // the original function's
  llvm::LoopInfo loops_;
  llvm::DenseMap<const llvm::Loop*, bool> quiet_;
  std::vector<Group> groups_;
  // Groups whose object still exists, including groups of the block that may still grow.
  std::vector<std::size_t> open_;
  llvm::DenseMap<const llvm::BasicBlock*, std::vector<std::size_t>> open_at_end_;
  bool after_barrier_ = false;  // in the block that is being collected

  llvm::MapVector<std::pair<const llvm::Loop*, Value*>, Sum> sums_;
  llvm::DenseMap<const llvm::Loop*, std::vector<Edge>> exits_;
  std::vector<std::pair<Edge, std::size_t>> left_at_;  // exits of groups that leave their accesses
  std::map<Edge, llvm::Instruction*> split_exits_;     // branches at the ends of the new blocks
  llvm::DenseMap<const llvm::Loop*, llvm::AllocaInst*> thread_numbers_;
  std::vector<llvm::AllocaInst*> variables_;
};

// Marks inserted instructions for tools that come after this pass.
template <typename T>
T* NoSanitize(T* instruction) {
  instruction->setNoSanitizeMetadata();
  return instruction;
}

ModuleCounter::ModuleCounter(llvm::Module& module)
    : module_(module),
      context_(module.getContext()),
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
      add_(llvm::InlineAsm::get(llvm::FunctionType::get(llvm::Type::getVoidTy(context_),
                                                        {pointer_, i64_, pointer_}, false),
                                "addq $1, $0", "=*m,er,*m,~{dirflag},~{fpsr},~{flags}", true)),
      likely_(llvm::MDBuilder(context_).createBranchWeights(kLikely, 1)) {
  for (llvm::FunctionCallee callee : {count_, count_static_}) {
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  }
}

llvm::GlobalVariable* ModuleCounter::ThreadLocal(llvm::Type* type, llvm::StringRef name) {
  return new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                  name, nullptr, llvm::GlobalValue::InitialExecTLSModel);
}

// Collects variables, including those of other modules that this one uses. Several modules then
// have such a variable, and counts add up.
void ModuleCounter::CollectVariables() {
  for (llvm::GlobalVariable& variable : module_.globals()) {
    const bool is_ours = &variable == thread_ || &variable == static_counts_;
    // The linker may drop a group-local copy but keeps references to it.
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
  // The hooks run before the program's own constructors and after its destructors.
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
    // The runtime needs the unwind tables to find the allocating callers.
    function->setUWTableKind(llvm::UWTableKind::Async);
    FunctionCounter(*this, *function).Run();
  }
  AddModuleFunctions();
}

void FunctionCounter::Run() {
  for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal(&function_)) Collect(*block);
  for (Group& group : groups_) FindIncomingLeaders(group);
  for (Group& group : groups_) LeaveAccesses(group);
  for (Group& group : groups_) {
    if (group.incoming_leaders.empty()) continue;
    llvm::BasicBlock* block = group.first->getParent();
    group.incoming_header = llvm::PHINode::Create(
        module_.pointer_, static_cast<unsigned>(group.incoming_leaders.size()), "", block->begin());
  }
  for (Group& group : groups_) Prepare(group);
  for (Group& group : groups_) Emit(group);
  EmitSums();
  EmitLeft();
  for (Group& group : groups_) CompleteIncoming(group);
  if (variables_.empty()) return;
  llvm::DominatorTree dominators(function_);
  llvm::PromoteMemToReg(variables_, dominators);
}

bool FunctionCounter::IsQuiet(const llvm::Loop& loop) {
  const auto [known, is_new] = quiet_.try_emplace(&loop, true);
  if (!is_new) return known->second;
  bool quiet = true;
  bool is_left = false;
  for (const llvm::BasicBlock* block : loop.blocks()) {
    for (const llvm::Instruction& instruction : *block) {
      quiet = quiet && !IsBarrier(instruction) && !Synchronises(instruction) &&
              !Polls(instruction, loop);
    }
    const llvm::Instruction* terminator = block->getTerminator();
    for (const llvm::BasicBlock* successor : llvm::successors(block)) {
      if (loop.contains(successor)) continue;
      is_left = true;
      quiet = quiet && !successor->isEHPad() &&
              (llvm::isa<llvm::BranchInst>(terminator) || llvm::isa<llvm::SwitchInst>(terminator));
    }
  }
  return quiet_[&loop] = quiet && is_left;
}

const llvm::Loop* FunctionCounter::QuietLoop(const llvm::BasicBlock& block) {
  const llvm::Loop* quiet = nullptr;
  for (const llvm::Loop* loop = loops_.getLoopFor(&block); loop != nullptr && IsQuiet(*loop);
       loop = loop->getParentLoop()) {
    quiet = loop;
  }
  return quiet;
}

// Returns the outermost quiet loop that does not change the pointer.
const llvm::Loop* FunctionCounter::LoopToSumIn(const llvm::Instruction& instruction,
                                               const Value* base) {
  const llvm::Loop* found = nullptr;
  for (const llvm::Loop* loop = loops_.getLoopFor(instruction.getParent());
       loop != nullptr && IsQuiet(*loop) && loop->isLoopInvariant(base);
       loop = loop->getParentLoop()) {
    found = loop;
  }
  return found;
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
    if (!group.leader && group.loop == nullptr) leader = open;
  }
  Group group{.base = base, .first = &instruction, .address = address, .weight = weight};
  group.loop = LoopToSumIn(instruction, base);
  const auto* phi = llvm::dyn_cast<llvm::PHINode>(base);
  if (group.loop == nullptr && leader) {
    group.leader = leader;
    groups_[*leader].leads = true;
  } else if (group.loop == nullptr && phi != nullptr &&
             phi->getParent() == instruction.getParent() && !after_barrier_) {
    group.incoming_leaders.resize(phi->getNumIncomingValues());  // found later
  }
  open_.push_back(groups_.size());
  groups_.push_back(std::move(group));
}

// Precondition: the open groups of all blocks are known.
void FunctionCounter::FindIncomingLeaders(Group& group) {
  if (group.incoming_leaders.empty()) return;
  const auto* phi = llvm::cast<llvm::PHINode>(group.base);
  bool is_any = false;
  for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
    const Value* base = BaseOf(phi->getIncomingValue(i));
    if (llvm::isa<llvm::AllocaInst, llvm::GlobalVariable>(base)) continue;
    for (const std::size_t open : open_at_end_[phi->getIncomingBlock(i)]) {
      const Group& there = groups_[open];
      if (there.base != base || there.loop != nullptr) continue;
      const std::size_t leader = there.leader.value_or(open);
      group.incoming_leaders[i] = leader;
      groups_[leader].leads = true;
      is_any = true;
      break;
    }
  }
  if (!is_any) group.incoming_leaders.clear();
}

// Merges two additions into one: the block that leads here leaves its accesses to this group.
void FunctionCounter::LeaveAccesses(Group& group) {
  if (group.incoming_leaders.empty()) return;
  const llvm::BasicBlock* block = group.first->getParent();
  if (AnySynchronises(block->front(), group.first)) return;
  const auto* phi = llvm::cast<llvm::PHINode>(group.base);
  std::optional<std::uint64_t> accesses;
  std::vector<Group*> leaders;
  for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
    if (!group.incoming_leaders[i]) continue;
    Group& leader = groups_[*group.incoming_leaders[i]];
    const llvm::BasicBlock* from = phi->getIncomingBlock(i);
    const auto* branch = llvm::dyn_cast<llvm::BranchInst>(from->getTerminator());
    const bool may = leader.first->getParent() == from && branch != nullptr &&
                     leader.incoming_leaders.empty() && !leader.leaves_accesses &&
                     accesses.value_or(leader.weight) == leader.weight &&
                     !AnySynchronises(*leader.first, nullptr);
    if (!may) return;
    for (const llvm::BasicBlock* to : branch->successors()) {
      if (to != block && to->isEHPad()) return;
    }
    accesses = leader.weight;
    leaders.push_back(&leader);
  }
  for (Group* leader : leaders) {
    leader->leaves_accesses = true;
    llvm::Instruction* terminator = leader->first->getParent()->getTerminator();
    for (unsigned i = 0; i < terminator->getNumSuccessors(); ++i) {
      if (terminator->getSuccessor(i) == block) continue;
      left_at_.emplace_back(Edge(terminator, i), static_cast<std::size_t>(leader - &groups_[0]));
    }
  }
  group.left_to_it = *accesses;
}

void FunctionCounter::AccessLate(llvm::Instruction& instruction, Value* address, Value* weight) {
  if (address->getType()->getPointerAddressSpace() != 0) return;
  Group group{
      .base = BaseOf(address), .first = &instruction, .address = address, .late_weight = weight};
  group.loop = LoopToSumIn(instruction, group.base);
  groups_.push_back(std::move(group));
}

void FunctionCounter::AccessBytes(llvm::Instruction& instruction, Value* address, Value* bytes) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(bytes)) {
    const std::uint64_t words = (known->getZExtValue() + kWordBytes - 1) / kWordBytes;
    if (words > 0) Access(instruction, address, words);
    return;
  }
  llvm::IRBuilder<> builder(&instruction);
  Value* wide = builder.CreateZExtOrTrunc(bytes, module_.i64_);
  AccessLate(instruction, address,
             builder.CreateLShr(builder.CreateAdd(wide, builder.getInt64(kWordBytes - 1)), 3));
}

// `in_place`: the vector's type, if each element has its place in memory whatever the mask. Null:
// the accessed elements adjoin.
void FunctionCounter::AccessMasked(llvm::IntrinsicInst& intrinsic, Value* address, Value* mask,
                                   const llvm::Type* in_place) {
  llvm::IRBuilder<> builder(&intrinsic);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  if (type == nullptr) return;
  Value* bits = builder.CreateBitCast(mask, builder.getIntNTy(type->getNumElements()));
  Value* lanes = builder.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits);
  if (in_place != nullptr) {  // the first element may be another object's
    Value* before = builder.CreateZExtOrTrunc(
        builder.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, builder.getFalse()),
        module_.i64_);
    const std::uint64_t bytes =
        module_.module_.getDataLayout().getTypeAllocSize(in_place->getScalarType()).getFixedValue();
    address = builder.CreatePtrAdd(address, builder.CreateMul(before, builder.getInt64(bytes)));
  }
  AccessLate(intrinsic, address, builder.CreateZExtOrTrunc(lanes, module_.i64_));
}

void FunctionCounter::AccessLanes(llvm::IntrinsicInst& intrinsic, Value* addresses, Value* mask) {
  llvm::IRBuilder<> builder(&intrinsic);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
  if (type == nullptr) return;
  for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
    Value* is_accessed = builder.CreateExtractElement(mask, lane);
    AccessLate(intrinsic, builder.CreateExtractElement(addresses, lane),
               builder.CreateZExt(is_accessed, module_.i64_));
  }
}

// True if the intrinsic accesses memory in a way that is counted.
bool FunctionCounter::AccessIntrinsic(llvm::IntrinsicInst& intrinsic) {
  if (auto* memory = llvm::dyn_cast<llvm::MemIntrinsic>(&intrinsic)) {
    AccessBytes(intrinsic, memory->getRawDest(), memory->getLength());
    if (auto* transfer = llvm::dyn_cast<llvm::MemTransferInst>(memory)) {
      AccessBytes(intrinsic, transfer->getRawSource(), transfer->getLength());
    }
    return true;
  }
  const auto argument = [&](unsigned i) { return intrinsic.getArgOperand(i); };
  switch (intrinsic.getIntrinsicID()) {
    case llvm::Intrinsic::masked_load:
      AccessMasked(intrinsic, argument(0), argument(2), intrinsic.getType());
      return true;
    case llvm::Intrinsic::masked_store:
      AccessMasked(intrinsic, argument(1), argument(3), argument(0)->getType());
      return true;
    case llvm::Intrinsic::masked_expandload:
      AccessMasked(intrinsic, argument(0), argument(1), nullptr);
      return true;
    case llvm::Intrinsic::masked_compressstore:
      AccessMasked(intrinsic, argument(1), argument(2), nullptr);
      return true;
    case llvm::Intrinsic::masked_gather:
      AccessLanes(intrinsic, argument(0), argument(2));
      return true;
    case llvm::Intrinsic::masked_scatter:
      AccessLanes(intrinsic, argument(1), argument(3));
      return true;
    default:
      return false;
  }
}

void FunctionCounter::Collect(llvm::BasicBlock& block) {
  // Groups stay open if there is only one way into the block. The first block of a loop has two.
  const llvm::BasicBlock* before = block.getSinglePredecessor();
  open_ = before != nullptr ? open_at_end_[before] : std::vector<std::size_t>();
  after_barrier_ = false;
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
    } else if (auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
               intrinsic != nullptr && AccessIntrinsic(*intrinsic)) {
      continue;
    } else if (IsBarrier(instruction)) {
      open_.clear();
      after_barrier_ = true;
    }
  }
  open_at_end_[&block] = open_;
}

llvm::AllocaInst* FunctionCounter::NewVariable(llvm::Type* type) {
  llvm::BasicBlock& entry = function_.getEntryBlock();
  llvm::IRBuilder<> builder(&entry, entry.begin());
  variables_.push_back(builder.CreateAlloca(type));
  return variables_.back();
}

// Calls `store(builder)` on each way into the loop.
template <typename Store>
void FunctionCounter::BeforeLoop(const llvm::Loop& loop, Store store) {
  const std::vector<llvm::BasicBlock*> ways(llvm::pred_begin(loop.getHeader()),
                                            llvm::pred_end(loop.getHeader()));
  llvm::SmallPtrSet<llvm::BasicBlock*, 4> done;
  for (llvm::BasicBlock* way : ways) {
    if (loop.contains(way) || !done.insert(way).second) continue;
    llvm::IRBuilder<> builder(way->getTerminator());
    store(builder);
  }
}

// Prepares all that a group needs outside of its block, while the loops still match the blocks.
void FunctionCounter::Prepare(Group& group) {
  if (group.loop != nullptr) {
    const auto [sum, is_new] = sums_.insert({{group.loop, group.base}, Sum()});
    if (is_new) {
      sum->second = {.accesses = NewVariable(module_.i64_),
                     .address = NewVariable(module_.pointer_)};
      BeforeLoop(*group.loop, [&](llvm::IRBuilder<>& builder) {
        builder.CreateStore(builder.getInt64(0), sum->second.accesses);
      });
    }
    const auto [exits, is_first] = exits_.try_emplace(group.loop);
    for (llvm::BasicBlock* block : group.loop->blocks()) {
      llvm::Instruction* terminator = block->getTerminator();
      for (unsigned i = 0; is_first && i < terminator->getNumSuccessors(); ++i) {
        if (group.loop->contains(terminator->getSuccessor(i))) continue;
        exits->second.emplace_back(terminator, i);
      }
    }
  }
  group.quiet_loop = QuietLoop(*group.first->getParent());
  if (group.quiet_loop == nullptr || group.quiet_loop == group.loop) return;
  const auto [number, is_new] = thread_numbers_.try_emplace(group.quiet_loop);
  if (!is_new) return;
  number->second = NewVariable(module_.i32_);
  BeforeLoop(*group.quiet_loop, [&](llvm::IRBuilder<>& builder) {
    builder.CreateStore(ThreadNumber(builder), number->second);
  });
}

Value* FunctionCounter::ThreadNumber(llvm::IRBuilder<>& builder) {
  return NoSanitize(
      builder.CreateLoad(module_.i32_, builder.CreateThreadLocalAddress(module_.thread_)));
}

// Returns the thread's number as it was when control came to the loop. A thread without a number
// gets none within a quiet loop.
Value* FunctionCounter::ThreadNumberIn(llvm::IRBuilder<>& builder, const llvm::Loop* loop) {
  const auto number = thread_numbers_.find(loop);
  return number != thread_numbers_.end() ? builder.CreateLoad(module_.i32_, number->second)
                                         : ThreadNumber(builder);
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

// Adds with one instruction, so that a signal handler that adds, too, runs before it or after it.
// clang guarantees that in no other way.
void FunctionCounter::AddTo(llvm::IRBuilder<>& builder, Value* word, Value* weight) {
  llvm::CallInst* add = builder.CreateCall(module_.add_, {word, weight, word});
  for (const unsigned operand : {0U, 2U}) {
    add->addParamAttr(operand, llvm::Attribute::get(module_.context_, llvm::Attribute::ElementType,
                                                    module_.i64_));
  }
}

void FunctionCounter::AddToCount(llvm::IRBuilder<>& builder, Value* header, Value* weight) {
  AddTo(builder,
        builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), header, offsetof(Header, count)),
        weight);
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

// Emits the formula of objects/layout.h.
Value* FunctionCounter::EmitDynamic(llvm::Instruction* before, Value* address, Value* weight,
                                    Value* thread, bool slow_alone) {
  llvm::BasicBlock* head = before->getParent();
  llvm::BasicBlock* done = llvm::SplitBlock(head, before);
  llvm::LLVMContext& context = module_.context_;
  llvm::BasicBlock* hit = llvm::BasicBlock::Create(context, "", &function_, done);
  llvm::BasicBlock* slow = llvm::BasicBlock::Create(context, "", &function_, done);

  head->getTerminator()->eraseFromParent();
  llvm::IRBuilder<> builder(head);
  Value* number = builder.CreatePtrToInt(address, module_.i64_);
  constexpr unsigned kEntryShift = 5;
  static_assert(sizeof(SpanEntry) == 1 << kEntryShift);
  Value* place = builder.CreateShl(builder.CreateLShr(number, kSpanShift), kEntryShift);
  Value* entry = builder.CreateIntToPtr(builder.CreateAdd(place, builder.getInt64(kTableStart)),
                                        module_.pointer_);
  const auto field = [&](std::size_t at, llvm::Type* type) {
    return NoSanitize(builder.CreateLoad(
        type, builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), entry, at)));
  };
  Value* owner = field(offsetof(SpanEntry, owner), module_.i32_);
  builder.CreateCondBr(builder.CreateICmpEQ(owner, thread), hit, slow, module_.likely_);

  builder.SetInsertPoint(hit);
  Value* reciprocal = field(offsetof(SpanEntry, reciprocal), module_.i64_);
  Value* slot = field(offsetof(SpanEntry, slot_bytes), module_.i64_);
  Value* origin = field(offsetof(SpanEntry, origin), module_.i64_);
  Value* offset = builder.CreateAnd(number, builder.getInt64(kSpanBytes - 1));
  Value* index = builder.CreateLShr(builder.CreateMul(offset, reciprocal), kReciprocalShift);
  Value* header = builder.CreateIntToPtr(builder.CreateAdd(origin, builder.CreateMul(index, slot)),
                                         module_.pointer_);
  if (!slow_alone) AddToCount(builder, header, weight);
  builder.CreateBr(done);

  builder.SetInsertPoint(slow);
  builder.CreateCall(module_.count_, {address, weight});
  builder.CreateBr(done);

  builder.SetInsertPoint(done, done->begin());
  llvm::PHINode* found = builder.CreatePHI(module_.pointer_, 2);
  found->addIncoming(header, hit);
  found->addIncoming(llvm::ConstantPointerNull::get(module_.pointer_), slow);
  return found;
}

void FunctionCounter::EmitFollower(Group& group, llvm::Instruction* before, Value* weight) {
  llvm::IRBuilder<> builder(before);
  Value* header = group.leader ? groups_[*group.leader].header : group.incoming_header;
  group.header = header;
  llvm::Instruction* found = nullptr;
  llvm::Instruction* slow = nullptr;
  llvm::SplitBlockAndInsertIfThenElse(builder.CreateIsNotNull(header), before, &found, &slow,
                                      module_.likely_);
  llvm::IRBuilder<> found_builder(found);
  AddToCount(found_builder, header,
             found_builder.CreateAdd(weight, found_builder.getInt64(group.left_to_it)));
  llvm::IRBuilder<> slow_builder(slow);
  if (llvm::is_contained(group.incoming_leaders, std::nullopt)) {
    Value* looked_for = EmitDynamic(slow, group.address, weight,
                                    ThreadNumberIn(slow_builder, group.quiet_loop), false);
    llvm::BasicBlock* after = before->getParent();
    llvm::PHINode* either = llvm::PHINode::Create(module_.pointer_, 2, "", after->begin());
    either->addIncoming(header, found->getParent());
    either->addIncoming(looked_for, slow->getParent());
    group.header = either;
  } else {
    slow_builder.CreateCall(module_.count_, {group.address, weight});
  }
}

void FunctionCounter::AddToSum(const Group& group, llvm::IRBuilder<>& builder, Value* weight) {
  const Sum& sum = sums_[{group.loop, group.base}];
  Value* before = builder.CreateLoad(module_.i64_, sum.accesses);
  builder.CreateStore(builder.CreateAdd(before, weight), sum.accesses);
  Value* address = group.address;
  if (group.late_weight != nullptr) {
    address = builder.CreateSelect(builder.CreateICmpNE(weight, builder.getInt64(0)), address,
                                   builder.CreateLoad(module_.pointer_, sum.address));
  }
  builder.CreateStore(address, sum.address);
}

void FunctionCounter::Emit(Group& group) {
  llvm::Instruction* before = group.first;
  llvm::IRBuilder<> builder(before);
  Value* weight = group.late_weight != nullptr ? group.late_weight : builder.getInt64(group.weight);
  if (group.loop != nullptr) return AddToSum(group, builder, weight);
  if (group.late_weight != nullptr) {
    // Without an access the address may be invalid.
    before = llvm::SplitBlockAndInsertIfThen(builder.CreateICmpNE(weight, builder.getInt64(0)),
                                             before->getIterator(), false);
    builder.SetInsertPoint(before);
  }
  if (Value* id = StaticId(builder, group.base)) {
    EmitStatic(builder, before, id, weight);
  } else if (group.leader || !group.incoming_leaders.empty()) {
    EmitFollower(group, before, weight);
  } else {
    group.header = EmitDynamic(before, group.address, weight,
                               ThreadNumberIn(builder, group.quiet_loop), group.leaves_accesses);
  }
}

// Gives the edge a block of its own and returns the end of that block.
llvm::Instruction* FunctionCounter::SplitExit(const Edge& edge) {
  llvm::Instruction*& end = split_exits_[edge];
  if (end != nullptr) return end;
  const auto [terminator, successor] = edge;
  llvm::BasicBlock* to = terminator->getSuccessor(successor);
  llvm::BasicBlock* between = llvm::BasicBlock::Create(module_.context_, "", &function_, to);
  end = llvm::BranchInst::Create(to, between);
  terminator->setSuccessor(successor, between);
  for (llvm::PHINode& phi : to->phis()) {
    // One block may have several edges with equal values, and any will do. Our own block has none
    // yet.
    const int place = phi.getBasicBlockIndex(terminator->getParent());
    if (place >= 0) phi.setIncomingBlock(static_cast<unsigned>(place), between);
  }
  return end;
}

void FunctionCounter::EmitSums() {
  for (const auto& [where, sum] : sums_) {
    const auto& [loop, base] = where;
    const llvm::Loop* quiet = QuietLoop(*loop->getHeader());
    for (const Edge& edge : exits_[loop]) {
      llvm::Instruction* before = SplitExit(edge);
      llvm::IRBuilder<> builder(before);
      Value* accesses = builder.CreateLoad(module_.i64_, sum.accesses);
      if (Value* id = StaticId(builder, base)) {
        EmitStatic(builder, before, id, accesses);
        continue;
      }
      Value* address = builder.CreateLoad(module_.pointer_, sum.address);
      Value* any = builder.CreateICmpNE(accesses, builder.getInt64(0));
      llvm::Instruction* then = llvm::SplitBlockAndInsertIfThen(any, before->getIterator(), false);
      builder.SetInsertPoint(then);
      EmitDynamic(then, address, accesses, ThreadNumberIn(builder, quiet), false);
    }
  }
}

void FunctionCounter::EmitLeft() {
  for (const auto& [edge, leader] : left_at_) {
    llvm::Instruction* before = SplitExit(edge);
    llvm::IRBuilder<> builder(before);
    Value* header = groups_[leader].header;
    llvm::Instruction* found = llvm::SplitBlockAndInsertIfThen(
        builder.CreateIsNotNull(header), before->getIterator(), false, module_.likely_);
    builder.SetInsertPoint(found);
    AddToCount(builder, header, builder.getInt64(groups_[leader].weight));
  }
}

void FunctionCounter::CompleteIncoming(Group& group) {
  if (group.incoming_leaders.empty()) return;
  const auto* base = llvm::cast<llvm::PHINode>(group.base);
  for (unsigned i = 0; i < base->getNumIncomingValues(); ++i) {
    const std::optional<std::size_t> leader = group.incoming_leaders[i];
    group.incoming_header->addIncoming(
        leader ? groups_[*leader].header : llvm::ConstantPointerNull::get(module_.pointer_),
        base->getIncomingBlock(i));
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
