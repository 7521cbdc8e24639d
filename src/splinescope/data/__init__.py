"""(see DESIGN)"""
